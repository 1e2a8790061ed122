//! A count over the last minute, in slots of a second.
//!
//! Sliding, so that no burst around a full minute passes twice the limit. There is one slot more
//! than a minute has seconds: what happened late in the oldest second must count for its whole
//! minute, too, so the limit is kept on the strict side, by less than a second.

use std::time::Duration;

const SLOTS: usize = 61;
/// How long a slot counts, in seconds.
const SPAN: u64 = SLOTS as u64;

/// How much happened in the last minute, and up to a second more.
#[derive(Debug)]
pub(super) struct Window {
    slots: [u64; SLOTS],
    /// The second that the newest slot stands for.
    second: u64,
    /// Of all slots. An upstream may say that it used as much as a number can hold.
    sum: u128,
}

impl Default for Window {
    fn default() -> Self {
        Self { slots: [0; SLOTS], second: 0, sum: 0 }
    }
}

impl Window {
    /// Counts `amount` at `now`, which may be a moment before the latest one that was told.
    pub(super) fn add(&mut self, amount: u64, now: Duration) {
        self.advance(now.as_secs());
        if let Some(slot) = self.slot(now.as_secs()) {
            let before = *slot;
            *slot = before.saturating_add(amount);
            self.sum += u128::from(*slot - before);
        }
    }

    /// Takes back `amount` that was counted at `then`, unless that is forgotten already.
    pub(super) fn take_back(&mut self, amount: u64, then: Duration) {
        if let Some(slot) = self.slot(then.as_secs()) {
            let taken = amount.min(*slot);
            *slot -= taken;
            self.sum -= u128::from(taken);
        }
    }

    /// What was counted in the minute before `now`, at least.
    pub(super) fn sum(&self, now: Duration) -> u64 {
        u64::try_from(self.whole_sum(now)).unwrap_or(u64::MAX)
    }

    /// How long after `now` there is room for `amount` under `limit`.
    pub(super) fn room_after(&self, amount: u64, limit: u64, now: Duration) -> Duration {
        let room = u128::from(limit.saturating_sub(amount));
        self.first_second(now, |sum| sum <= room)
    }

    /// How long after `now` nothing is counted any more.
    pub(super) fn clear_after(&self, now: Duration) -> Duration {
        let newest = (0..SPAN.min(self.second + 1))
            .map(|age| self.second - age)
            .find(|&second| self.slots[index(second)] > 0);
        newest
            .map_or(Duration::ZERO, |second| Duration::from_secs(second + SPAN).saturating_sub(now))
    }

    fn whole_sum(&self, now: Duration) -> u128 {
        let gone = now.as_secs().saturating_sub(self.second);
        if gone >= SPAN {
            return 0;
        }
        let fallen = (1..=gone).map(|n| u128::from(self.slots[index(self.second + n)]));
        self.sum - fallen.sum::<u128>()
    }

    /// How long after `now` a second begins at which the count is as wanted.
    fn first_second(&self, now: Duration, wanted: impl Fn(u128) -> bool) -> Duration {
        let mut sum = self.whole_sum(now);
        let first = (now.as_secs() + 1).max(self.second + 1);
        for second in first..first + SPAN {
            // the slot that `second` takes over falls out when `second` begins
            if second - self.second <= SPAN {
                sum = sum.saturating_sub(self.slots[index(second)].into());
            }
            if wanted(sum) {
                return Duration::from_secs(second).saturating_sub(now);
            }
        }
        Duration::from_secs(SPAN)
    }

    /// The slot of `second`, if it is neither forgotten nor to come.
    fn slot(&mut self, second: u64) -> Option<&mut u64> {
        let age = self.second.checked_sub(second)?;
        (age < SPAN).then(|| &mut self.slots[index(second)])
    }

    fn advance(&mut self, second: u64) {
        let gone = second.saturating_sub(self.second).min(SPAN);
        for n in 1..=gone {
            let slot = &mut self.slots[index(self.second + n)];
            self.sum -= u128::from(*slot);
            *slot = 0;
        }
        self.second = self.second.max(second);
    }
}

fn index(second: u64) -> usize {
    usize::try_from(second % SPAN).unwrap_or_default()
}
