//! The parts of limits that this gateway has, where limits are shared with other gateways.
//!
//! Invariant: the parts of all gateways together are at most the limit. A part of a limit per minute or on concurrency
//! bounds what this gateway admits at a time, and is given back only as far as it is not in use. A part of a monthly
//! quota is the number of tokens that this gateway was granted in the month, used ones included.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::meter::{SubjectCounts, SubjectMeter};
use crate::shared_pool::{Correction, LocalPool, PoolPhase, PoolState, Shortages};
use domain::allocation::{self, Allocation, AllocationRequest, LimitSubject, Pool};
use domain::limit::LimitKind;

/// The owner of shared limits, and the queue for those that lack something.
#[derive(Debug)]
pub(super) struct SharedSubject {
    pub(super) subject: LimitSubject,
    pub(super) shortages: Arc<Shortages>,
}

/// The parts of all limits of one owner.
#[derive(Debug, Default)]
pub(super) struct Shares {
    requests: Share,
    tokens: Share,
    concurrency: Share,
    month: Share,
    /// The month of [`Self::month`].
    month_start: Option<Timestamp>,
}

/// The part of one limit.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// The granted amount, in units of the limit.
    granted: u64,
    /// The whole limit, when something was last requested.
    limit: u64,
    /// Whether a monthly quota is enforced.
    is_enforced: bool,
    state: PoolState,
}

/// A limit of one owner, as a part of a shared pool.
struct LimitPool {
    meter: Arc<SubjectMeter>,
    kind: LimitKind,
    /// The month of a monthly quota.
    month: Option<Timestamp>,
}

/// A limit that lacks something.
pub(super) type Lacking = (Arc<SubjectMeter>, LimitKind);

/// Adds limits to the queues of their owners. The meters must not be locked.
pub(super) fn push(lacking: impl IntoIterator<Item = Lacking>) {
    for (meter, kind) in lacking {
        let month = meter.lock().month_of_share(kind);
        if let Some(SharedSubject { shortages, .. }) = &meter.shared {
            shortages.push(Arc::new(LimitPool { meter: meter.clone(), kind, month }));
        }
    }
}

// === impl Shares ===

impl Shares {
    /// Forgets the part of the quota of an earlier month.
    pub(super) fn roll(&mut self, month: Timestamp) {
        if self.month_start != Some(month) {
            self.month_start = Some(month);
            self.month = Share::default();
        }
    }

    pub(super) fn get(&self, kind: LimitKind) -> &Share {
        match kind {
            LimitKind::Requests => &self.requests,
            LimitKind::Tokens => &self.tokens,
            LimitKind::Concurrency => &self.concurrency,
            LimitKind::MonthlyTokens => &self.month,
        }
    }

    pub(super) fn get_mut(&mut self, kind: LimitKind) -> &mut Share {
        match kind {
            LimitKind::Requests => &mut self.requests,
            LimitKind::Tokens => &mut self.tokens,
            LimitKind::Concurrency => &mut self.concurrency,
            LimitKind::MonthlyTokens => &mut self.month,
        }
    }

    pub(super) fn month_start(&self) -> Option<Timestamp> {
        self.month_start
    }
}

// === impl Share ===

impl Share {
    /// Records that a monthly quota is enforced. What was `used` before it was is no part of a grant: the store
    /// subtracts it from the quota. It therefore counts as granted.
    pub(super) fn begin_quota(&mut self, used: u64) {
        if !std::mem::replace(&mut self.is_enforced, true) {
            self.granted = self.granted.max(used);
        }
    }

    /// Records that no monthly quota is enforced.
    pub(super) fn end_quota(&mut self) {
        self.is_enforced = false;
    }

    /// Returns the granted amount.
    pub(super) const fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns whether more may be obtained of `limit`.
    pub(super) fn may_obtain(&self, limit: u64) -> bool {
        self.granted < limit && self.state.is_open()
    }

    /// Returns what all gateways together have left if this one uses `used`, as far as is known.
    pub(super) fn unused_of_all(&self, used: u64) -> u64 {
        let outside = u64::try_from(self.state.outside()).unwrap_or_default();
        self.granted.saturating_sub(used).saturating_add(outside)
    }

    /// Returns what other gateways had when this one last obtained something.
    pub(super) fn elsewhere(&self) -> u64 {
        u64::try_from(self.state.outside() - self.state.available()).unwrap_or_default()
    }

    /// Returns what this gateway may still use beside `used`, and what was available to all gateways when this one
    /// last obtained something.
    pub(super) fn left(&self, used: u64) -> u64 {
        let available = u64::try_from(self.state.available()).unwrap_or_default();
        self.granted.saturating_sub(used).saturating_add(available)
    }

    /// Requests `lacking` more of `limit`. Returns whether the limit must be added to the queue.
    pub(super) fn request(&mut self, limit: u64, lacking: u64) -> bool {
        self.limit = limit;
        self.state.request(saturated(lacking)).unwrap_or(false)
    }

    /// Returns whether the limit must be added to the queue because little is left beside `used`, or because it was
    /// lowered: the parts of all gateways may then exceed it.
    pub(super) fn request_ahead(&mut self, limit: u64, used: u64) -> bool {
        let is_lowered = limit < std::mem::replace(&mut self.limit, limit);
        let unused = saturated(self.granted.saturating_sub(used));
        if is_lowered {
            self.state.request(0) == Some(true)
        } else {
            self.state.request_ahead(unused)
        }
    }
}

// === impl LimitPool ===

impl LimitPool {
    /// Returns whether the granted amount is still that of this pool's month.
    fn is_current(&self, counts: &SubjectCounts) -> bool {
        counts.month_of_share(self.kind) == self.month
    }
}

impl LocalPool for LimitPool {
    fn take_request(&self) -> Option<AllocationRequest> {
        let subject = self.meter.shared.as_ref()?.subject.clone();
        let mut counts = self.meter.lock();
        if !self.is_current(&counts) {
            return None;
        }
        let share = counts.share_mut(self.kind)?;
        let pool = match self.kind {
            LimitKind::Requests => Pool::Requests(subject),
            LimitKind::Tokens => Pool::Tokens(subject),
            LimitKind::Concurrency => Pool::Concurrency(subject),
            LimitKind::MonthlyTokens => Pool::MonthlyTokens { subject, month: self.month? },
        };
        Some(share.state.take_request(pool, Some(saturated(share.limit))))
    }

    fn add(&self, allocation: Allocation, phase: PoolPhase) {
        let mut counts = self.meter.lock();
        if !self.is_current(&counts) {
            return;
        }
        // The window is not advanced, so the low-water mark is rather too high.
        let used = counts.used(self.kind, Duration::ZERO);
        let Some(share) = counts.share_mut(self.kind) else { return };
        share.granted =
            share.granted.saturating_add(u64::try_from(allocation.granted).unwrap_or_default());
        let unused = share.granted.saturating_sub(used);
        share.state.add(allocation, saturated(unused), phase);
    }

    fn reopen(&self) {
        if let Some(share) = self.meter.lock().share_mut(self.kind) {
            share.state.reopen();
        }
    }

    fn take_unused(&self, needed: Option<i64>, now: Duration) -> i64 {
        let mut counts = self.meter.lock();
        if !self.is_current(&counts) {
            return 0;
        }
        let used = counts.used(self.kind, now);
        let Some(share) = counts.share_mut(self.kind) else { return 0 };
        let unused = saturated(share.granted.saturating_sub(used));
        let amount = match needed {
            Some(needed) => allocation::give_back(unused, needed),
            // What is in use now may be needed again.
            None => (unused - saturated(used / 2)).max(0),
        };
        share.granted -= u64::try_from(amount).unwrap_or_default();
        amount
    }

    fn reduce_to_used(&self, now: Duration) -> Correction {
        if self.kind == LimitKind::MonthlyTokens {
            return Correction::GiveBack(self.take_unused(Some(i64::MAX), now));
        }
        let mut counts = self.meter.lock();
        let used = counts.used(self.kind, now);
        let Some(share) = counts.share_mut(self.kind) else { return Correction::GiveBack(0) };
        let used = share.granted.min(used);
        match (std::mem::replace(&mut share.granted, used), used) {
            (granted, 0) => Correction::GiveBack(saturated(granted)),
            (_, used) => Correction::Set(saturated(used)),
        }
    }

    fn activity(&self, now: Duration) -> u64 {
        self.meter.lock().used(self.kind, now)
    }

    fn is_empty(&self) -> bool {
        let mut counts = self.meter.lock();
        !self.is_current(&counts)
            || counts.share_mut(self.kind).is_none_or(|share| share.granted == 0)
    }
}

fn saturated(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
