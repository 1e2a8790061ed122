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
mod share;
mod window;

use std::hash::Hash;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use foldhash::fast::RandomState;
use jiff::Timestamp;

use crate::shared_pool::Shortages;
use domain::allocation::LimitSubject;
use domain::consumption::Consumption;
use domain::id::{AccountId, KeyId, ModelId};
use domain::limit::{Demand, LimitKind, LimitScope, LimitStatus, Limits};
use meter::{Excess, SubjectCounts, SubjectMeter};
use permit::Grant;
use share::SharedSubject;

pub use in_use::{LimitOwner, LimitUse};
pub use permit::{Permit, QuotaWaitGuard};
pub use receive::ReceiveGuard;

/// The usage counters of the whole gateway.
///
/// Accounts, models and keys are counted even without limits, so that a limit that is set later covers the
/// whole month and the requests in progress.
#[derive(Default)]
pub struct Limiter {
    accounts: Map<AccountId>,
    models: Map<ModelId>,
    keys: Map<KeyId>,
    /// The queue of limits that lack something, if they are shared with other gateways.
    shortages: Option<Arc<Shortages>>,
}

/// The subjects that a request counts against, with their limits.
pub struct LimitedSubjects<'a> {
    /// The account, with its plan's limits.
    pub account: (AccountId, &'a Limits),
    /// The model, with its limits.
    pub model: (&'a ModelId, &'a Limits),
    /// The key's [origin](domain::key::Key::origin), with the key's limits.
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
    /// Why it has no room, and when it will.
    pub cause: ExceededCause,
}

/// Why a limit has no room, and when it will have some. Ordered by increasing severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExceededCause {
    /// More of the limit was requested from other gateways.
    Requested,
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
#[derive(Default)]
struct Headroom {
    tightest: Option<Exceeded>,
    observed: Vec<(LimitScope, LimitKind)>,
    /// The tokens that the tightest enforced limit leaves, in a minute or month; `None` if none counts tokens.
    left: Option<u64>,
    /// The tokens that the tightest enforced monthly quota leaves; `None` if there is none.
    month_left: Option<u64>,
    /// The limits to add to the queue of shortages, by the position of their owners.
    lacking: Vec<(usize, LimitKind)>,
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

    /// Creates a limiter whose limits are shared with other gateways: it has nothing of a limit until it obtains a
    /// part of it from the store, which it requests in `shortages`.
    pub fn sharing(shortages: Arc<Shortages>) -> Self {
        Self { shortages: Some(shortages), ..Self::default() }
    }

    /// Admits a request that arrives at `now`, or returns the limit that refuses it for the longest time. A
    /// refused request is not counted. `demand` must be given if [`LimitedSubjects::counts_tokens`].
    pub fn admit(
        &self,
        subject: &LimitedSubjects<'_>,
        demand: Option<&Demand>,
        now: Moment,
    ) -> Decision {
        let limits = [subject.account.1, subject.model.1, subject.key.1];
        let meters = self.meters(subject);
        let mut locked = permit::lock(&meters);
        let mut found = check_limits(&mut locked, limits, demand, now);
        let grant = demand.map(|demand| Grant::of(demand, found.left, found.month_left));
        if let Some((demand, _)) = demand.zip(grant).filter(|(_, grant)| grant.cap.is_some()) {
            request_whole_answer(&mut locked, limits, demand, &mut found);
        }
        let reserved =
            demand.zip(grant).map_or(0, |(it, grant)| it.input.saturating_add(grant.output));
        let month_extra = grant.map_or(0, |grant| grant.month_extra);
        let mut limit_status = LimitStatus::default();
        for (index, (counts, limits)) in locked.iter_mut().zip(limits).enumerate() {
            let Some(counts) = counts else { continue };
            if found.tightest.is_none() {
                counts.take(limits, reserved, now);
                counts.month.reserve(month_extra, now.wall);
                let ahead = counts.request_ahead(limits, now).into_iter();
                found.lacking.extend(ahead.map(|kind| (index, kind)));
            }
            if !limits.observe {
                counts.show(limits, now, &mut limit_status);
            }
        }
        drop(locked);
        let meter = |(index, kind): (usize, LimitKind)| Some((meters[index].clone()?, kind));
        share::push(found.lacking.into_iter().filter_map(meter));
        let outcome = found
            .tightest
            .map_or_else(|| Ok(Permit::new(meters, limits, demand.zip(grant), now)), Err);
        Decision { permit: outcome, limit_status, observed: found.observed }
    }

    /// Registers a request that waits for monthly tokens. While the guard lives, requests under the same
    /// limits release the monthly tokens that they do not need.
    pub fn register_waiter(&self, subject: &LimitedSubjects<'_>) -> QuotaWaitGuard {
        QuotaWaitGuard::new(self.meters(subject))
    }

    fn meters(&self, subject: &LimitedSubjects<'_>) -> permit::Meters {
        [
            self.account_meter(subject.account.0),
            self.meter(&self.models, subject.model.0, LimitSubject::Model),
            self.key_meter(subject.key.0),
        ]
        .map(Some)
    }

    fn account_meter(&self, account: AccountId) -> Arc<SubjectMeter> {
        self.meter(&self.accounts, &account, LimitSubject::Account)
    }

    fn key_meter(&self, key: &KeyId) -> Arc<SubjectMeter> {
        self.meter(&self.keys, key, LimitSubject::Key)
    }

    fn meter<K: Hash + Eq + Clone>(
        &self,
        meters: &Map<K>,
        id: &K,
        subject: impl Fn(K) -> LimitSubject,
    ) -> Arc<SubjectMeter> {
        let Some(shortages) = &self.shortages else { return meter(meters, id) };
        let pinned = meters.pin();
        if let Some(meter) = pinned.get(id) {
            return meter.clone();
        }
        let shared =
            || SharedSubject { subject: subject(id.clone()), shortages: shortages.clone() };
        let new = || Arc::new(SubjectMeter::sharing(shared()));
        pinned.get_or_insert_with(id.clone(), new).clone()
    }
}

// === impl LimitedSubjects ===

impl LimitedSubjects<'_> {
    /// Returns whether any of the limits counts tokens.
    pub const fn counts_tokens(&self) -> bool {
        self.account.1.count_tokens() || self.model.1.count_tokens() || self.key.1.count_tokens()
    }
}

/// Checks all limits of a request, and collects what they leave. Switches the counters to the current month.
fn check_limits(
    locked: &mut [Option<MutexGuard<'_, SubjectCounts>>; 3],
    limits: [&Limits; 3],
    demand: Option<&Demand>,
    now: Moment,
) -> Headroom {
    let mut found = Headroom::default();
    for (index, ((counts, limits), scope)) in locked.iter_mut().zip(limits).zip(SCOPES).enumerate()
    {
        let Some(counts) = counts else { continue };
        counts.roll(now.wall);
        counts.align_quota(limits);
        let exceeded = counts.exceeded(limits, demand, now).into_iter().flatten();
        for Excess { kind, limit, cause, lacking } in exceeded {
            if limits.observe {
                found.observed.push((scope, kind));
                continue;
            }
            if cause == ExceededCause::Requested
                && counts.share_mut(kind).is_some_and(|share| share.request(limit, lacking))
            {
                found.lacking.push((index, kind));
            }
            if found.tightest.is_none_or(|tightest| cause > tightest.cause) {
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

/// Requests enough of the monthly quotas for the longest answer to `demand`, if this gateway's parts of them would
/// shorten it and more may be obtained. The request must then wait.
fn request_whole_answer(
    locked: &mut [Option<MutexGuard<'_, SubjectCounts>>; 3],
    limits: [&Limits; 3],
    demand: &Demand,
    found: &mut Headroom,
) {
    let kind = LimitKind::MonthlyTokens;
    let output = demand.policy.payable_for(demand.max_answer).saturating_mul(demand.choices);
    let wanted = demand.max_input.saturating_add(output);
    for (index, ((counts, limits), scope)) in locked.iter_mut().zip(limits).zip(SCOPES).enumerate()
    {
        let Some((counts, limit)) = counts.as_mut().zip(limits.monthly_tokens) else { continue };
        let lacking = wanted.saturating_sub(counts.enforced_month_left(limit));
        if lacking == 0 || !counts.may_obtain(limits, kind, limit) {
            continue;
        }
        if counts.share_mut(kind).is_some_and(|share| share.request(limit, lacking)) {
            found.lacking.push((index, kind));
        }
        let cause = ExceededCause::Requested;
        found.tightest.get_or_insert(Exceeded { scope, kind, limit, cause });
    }
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
