//! Limits on requests and tokens per minute, concurrent requests and tokens per month.
//!
//! Everything here is a pure function of [`Moment`]: there is no clock and no IO. [`Limiter::admit`] checks
//! all scopes of a request in one step. The [`Permit`] that it returns holds the request's concurrency slots
//! and reserves its tokens: a bound on the input and a first part of the output, which grows with the answer.
//!
//! Per-minute limits are enforced at admission. Invariant: the usage and reservations of the last minute,
//! together with the reservation of the arriving request, stay within the limit. An answer that outgrows its
//! reservation continues, and later requests wait. A monthly quota is enforced like a balance: an answer ends
//! where the quota does.

mod in_use;
mod meter;
mod month;
mod permit;
mod receive;
mod window;

use std::hash::Hash;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use foldhash::fast::RandomState;
use jiff::Timestamp;

use domain::consumption::Consumption;
use domain::id::{AccountId, KeyId, ModelId};
use domain::limit::{Demand, LimitKind, LimitScope, LimitStatus, Limits};
use meter::{SubjectCounts, SubjectMeter};
use permit::Grant;

pub use in_use::{LimitOwner, LimitUse};
pub use month::month_start;
pub use permit::{Permit, QuotaWaitGuard};
pub use receive::ReceiveGuard;

/// The usage counters of the whole gateway.
///
/// Accounts and models are counted even without limits, so that a limit that is set later covers the whole
/// month. The limits of a key never change.
#[derive(Default)]
pub struct Limiter {
    accounts: Map<AccountId>,
    models: Map<ModelId>,
    keys: Map<KeyId>,
}

/// The subjects that a request counts against, with their limits.
pub struct Subject<'a> {
    /// The account, with its plan's limits.
    pub account: (AccountId, &'a Limits),
    /// The model, with its limits.
    pub model: (&'a ModelId, &'a Limits),
    /// The key's origin, with the key's limits.
    pub key: (&'a KeyId, &'a Limits),
}

/// A point in time on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The monotonic clock, which measures minutes.
    pub monotonic: Duration,
    /// The wall clock, which determines months.
    pub wall: Timestamp,
}

/// The result of an admission check.
#[derive(Debug)]
pub struct Decision {
    /// The permit, or the limit that refuses the request.
    pub permit: Result<Permit, Exceeded>,
    /// The state of the limits after the decision.
    pub limit_status: LimitStatus,
    /// The limits in observe mode that the request exceeds.
    pub observed: Vec<(LimitScope, LimitKind)>,
}

/// A limit that a request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The owner of the limit.
    pub scope: LimitScope,
    /// The counted quantity.
    pub kind: LimitKind,
    /// The limit, in units of `kind`.
    pub limit: u64,
    /// When the limit will have room.
    pub cause: Cause,
}

/// Why a limit has no room, ordered by increasing severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The limit has room after this time.
    Wait(Duration),
    /// The quota is used up until the month ends.
    Spent {
        /// The end of the month.
        until: Timestamp,
    },
    /// The limit never has room: the request alone needs more.
    TooLarge {
        /// The amount that the request needs.
        needed: u64,
    },
}

/// The room that the limits of a request leave.
struct Room {
    tightest: Option<Exceeded>,
    observed: Vec<(LimitScope, LimitKind)>,
    /// The tokens that the tightest limit leaves; `None` if no limit counts tokens.
    left: Option<u64>,
    /// The tokens that the tightest monthly quota leaves; `None` if there is no quota.
    month_left: Option<u64>,
}

type Map<K> = papaya::HashMap<K, Arc<SubjectMeter>, RandomState>;

const SCOPES: [LimitScope; 3] = [LimitScope::Plan, LimitScope::Model, LimitScope::Key];

// === impl Limiter ===

impl Limiter {
    /// Creates a limiter that starts with the usage recorded in the month of `now`.
    pub fn resume(used: &Consumption, now: Timestamp) -> Self {
        let limiter = Self::default();
        restore(&limiter.accounts, &used.accounts, now);
        restore(&limiter.models, &used.models, now);
        restore(&limiter.keys, &used.keys, now);
        limiter
    }

    /// Admits a request that arrives at `now`, or returns the limit that refuses it for the longest time. A
    /// refused request is not counted. `demand` must be given if [`Subject::counts_tokens`].
    pub fn admit(&self, subject: &Subject<'_>, demand: Option<&Demand>, now: Moment) -> Decision {
        let limits = [subject.account.1, subject.model.1, subject.key.1];
        let meters = self.meters(subject);
        let mut places = permit::lock(&meters);
        let found = survey(&mut places, limits, demand, now);
        let output = demand.map_or(0, |demand| {
            let room = found.left.map(|left| left.saturating_sub(demand.input));
            room.map_or(demand.output, |room| demand.output.min(room))
        });
        let reserved = demand.map_or(0, |it| it.input.saturating_add(output));
        let grant = demand.map(|demand| Grant::of(demand, output, found.month_left));
        let month_extra = grant.as_ref().map_or(0, |grant| grant.month_extra);
        let mut limit_status = LimitStatus::default();
        for (counts, limits) in places.iter_mut().zip(limits) {
            let Some(counts) = counts else { continue };
            if found.tightest.is_none() {
                counts.take(limits, reserved, now);
                counts.month.reserve(month_extra, now.wall);
            }
            if !limits.observe {
                counts.show(limits, now, &mut limit_status);
            }
        }
        drop(places);
        let outcome = found
            .tightest
            .map_or_else(|| Ok(Permit::new(meters, limits, demand.zip(grant), now)), Err);
        Decision { permit: outcome, limit_status, observed: found.observed }
    }

    /// Asks requests under the same limits to release the monthly tokens that they do not need, for as long
    /// as the guard lives.
    pub fn wait(&self, subject: &Subject<'_>) -> QuotaWaitGuard {
        QuotaWaitGuard::new(self.meters(subject))
    }

    fn meters(&self, subject: &Subject<'_>) -> permit::Meters {
        let has_limits = *subject.key.1 != Limits::default();
        [
            Some(meter(&self.accounts, &subject.account.0)),
            Some(meter(&self.models, subject.model.0)),
            has_limits.then(|| meter(&self.keys, subject.key.0)),
        ]
    }
}

// === impl Subject ===

impl Subject<'_> {
    /// Returns whether any of the limits counts tokens.
    pub const fn counts_tokens(&self) -> bool {
        self.account.1.count_tokens() || self.model.1.count_tokens() || self.key.1.count_tokens()
    }
}

fn survey(
    places: &mut [Option<MutexGuard<'_, SubjectCounts>>; 3],
    limits: [&Limits; 3],
    demand: Option<&Demand>,
    now: Moment,
) -> Room {
    let mut found = Room { tightest: None, observed: Vec::new(), left: None, month_left: None };
    for ((counts, limits), scope) in places.iter_mut().zip(limits).zip(SCOPES) {
        let Some(counts) = counts else { continue };
        counts.month.roll(now.wall);
        for (kind, limit, cause) in counts.exceeded(limits, demand, now) {
            if limits.observe {
                found.observed.push((scope, kind));
            } else if found.tightest.is_none_or(|tightest| cause > tightest.cause) {
                found.tightest = Some(Exceeded { scope, kind, limit, cause });
            }
        }
        if !limits.observe {
            found.left = found.left.into_iter().chain(counts.tokens_left(limits, now)).min();
            found.month_left = found.month_left.into_iter().chain(counts.month_left(limits)).min();
        }
    }
    found
}

fn meter<K: Hash + Eq + Clone>(meters: &Map<K>, id: &K) -> Arc<SubjectMeter> {
    let pinned = meters.pin();
    if let Some(meter) = pinned.get(id) {
        return meter.clone();
    }
    pinned.get_or_insert_with(id.clone(), Arc::default).clone()
}

fn restore<K: Hash + Eq + Clone>(meters: &Map<K>, used: &[(K, u64)], now: Timestamp) {
    for (id, tokens) in used {
        let meter = meter(meters, id);
        let mut counts = meter.lock();
        counts.month.roll(now);
        counts.month.spend(*tokens);
    }
}

#[cfg(test)]
mod tests;
