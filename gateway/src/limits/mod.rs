//! Limits on requests and tokens per minute, requests at the same time and tokens per month.
//!
//! Pure over [`Moment`]: no clock, no IO. [`Limiter::admit`] says yes or no in one step for all scopes
//! of a request. The [`Permit`] that it gives holds the request's concurrency slots and reserves its
//! tokens: a bound on the input and a first slice of output, more as the answer grows.
//!
//! A limit per minute is kept at admission: what the last minute used and reserved, with the
//! reservation of the request that comes, stays within it. An answer that outgrows what is left is
//! not cut: it goes on, and the requests after it wait. A monthly quota is kept like a balance: an
//! answer ends where it does.

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
use meter::{Counts, Meter};
use permit::Grant;

pub use in_use::{LimitUse, Limited};
pub use month::month_start;
pub use permit::{Permit, QuotaWait};
pub use receive::ReceiveGuard;

/// Counts what is limited. One for the whole gateway.
///
/// Accounts and models are counted whether they are limited or not, so that a limit that is set later
/// knows what the month has used. The limits of a key never change.
#[derive(Default)]
pub struct Limiter {
    accounts: Map<AccountId>,
    models: Map<ModelId>,
    keys: Map<KeyId>,
}

/// Who a request counts against, and the limits there.
pub struct Subject<'a> {
    /// The account, with its plan's limits.
    pub account: (AccountId, &'a Limits),
    /// The model, with its own.
    pub model: (&'a ModelId, &'a Limits),
    /// The key's origin, with the key's own.
    pub key: (&'a KeyId, &'a Limits),
}

/// A point in time, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What minutes are measured by.
    pub monotonic: Duration,
    /// What months are.
    pub wall: Timestamp,
}

/// What became of a request that asked to be let in.
#[derive(Debug)]
pub struct Decision {
    /// Its place, or the limit that refuses it.
    pub outcome: Result<Permit, Exceeded>,
    /// How the limits stand after that.
    pub standing: LimitStatus,
    /// The limits that it exceeds but that are only observed.
    pub observed: Vec<(LimitScope, LimitKind)>,
}

/// A limit that a request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// What it belongs to.
    pub scope: LimitScope,
    /// What it counts.
    pub kind: LimitKind,
    /// The limit.
    pub limit: u64,
    /// What would help.
    pub cause: Cause,
}

/// Why a limit has no room, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It has room after this time.
    Wait(Duration),
    /// It has none before the month ends.
    Spent {
        /// When it does.
        until: Timestamp,
    },
    /// It never has: the request alone needs more.
    TooLarge {
        /// How much it needs.
        needed: u64,
    },
}

/// What a request finds where it is counted.
struct Survey {
    tightest: Option<Exceeded>,
    observed: Vec<(LimitScope, LimitKind)>,
    /// How many tokens all limits leave; `None` if none counts tokens.
    left: Option<u64>,
    /// How many tokens all monthly quotas leave; `None` if there is none.
    month_left: Option<u64>,
}

type Map<K> = papaya::HashMap<K, Arc<Meter>, RandomState>;

const SCOPES: [LimitScope; 3] = [LimitScope::Plan, LimitScope::Model, LimitScope::Key];

// === impl Limiter ===

impl Limiter {
    /// A limiter that knows what was `used` in the month of `now`.
    pub fn resume(used: &Consumption, now: Timestamp) -> Self {
        let limiter = Self::default();
        restore(&limiter.accounts, &used.accounts, now);
        restore(&limiter.models, &used.models, now);
        restore(&limiter.keys, &used.keys, now);
        limiter
    }

    /// Admits a request that comes `now`, or names the limit that is in its way; of several the one
    /// that is so for the longest. A refused request counts nowhere. `demand` is there if
    /// [`Subject::counts_tokens`].
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
        let mut standing = LimitStatus::default();
        for (counts, limits) in places.iter_mut().zip(limits) {
            let Some(counts) = counts else { continue };
            if found.tightest.is_none() {
                counts.take(limits, reserved, now);
                counts.month.reserve(month_extra, now.wall);
            }
            if !limits.observe {
                counts.show(limits, now, &mut standing);
            }
        }
        drop(places);
        let outcome = found
            .tightest
            .map_or_else(|| Ok(Permit::new(meters, limits, demand.zip(grant), now)), Err);
        Decision { outcome, standing, observed: found.observed }
    }

    /// Has requests that count under the same limits give back the tokens of a month that they do not
    /// need, for as long as the guard lives.
    pub fn wait(&self, subject: &Subject<'_>) -> QuotaWait {
        QuotaWait::new(self.meters(subject))
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
    /// Whether any of its limits is about tokens.
    pub const fn counts_tokens(&self) -> bool {
        self.account.1.count_tokens() || self.model.1.count_tokens() || self.key.1.count_tokens()
    }
}

fn survey(
    places: &mut [Option<MutexGuard<'_, Counts>>; 3],
    limits: [&Limits; 3],
    demand: Option<&Demand>,
    now: Moment,
) -> Survey {
    let mut found = Survey { tightest: None, observed: Vec::new(), left: None, month_left: None };
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

fn meter<K: Hash + Eq + Clone>(meters: &Map<K>, id: &K) -> Arc<Meter> {
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
