//! A sliding count over the last minute, in slots of one second.
//!
//! Sliding prevents a burst around a full minute from passing twice the limit. There is one slot more than a
//! minute has seconds: events late in the oldest second must count for a whole minute, so the limit errs on
//! the strict side by less than a second.

use std::time::Duration;

const SLOTS: usize = 61;
/// The time for which a slot counts, in seconds.
const SPAN_SECONDS: u64 = SLOTS as u64;

/// The amount counted in the last minute, and up to one second more.
#[derive(Debug)]
pub(super) struct Window {
    slots: [u64; SLOTS],
    /// The second of the newest slot.
    second: u64,
    /// The sum of all slots. It is wide because an upstream may report any 64-bit number.
    sum: u128,
}

impl Default for Window {
    fn default() -> Self {
        Self { slots: [0; SLOTS], second: 0, sum: 0 }
    }
}

impl Window {
    /// Counts `amount` at `now`, which may be slightly earlier than the latest call.
    pub(super) fn add(&mut self, amount: u64, now: Duration) {
        self.advance(now.as_secs());
        if let Some(slot) = self.slot(now.as_secs()) {
            let before = *slot;
            *slot = before.saturating_add(amount);
            self.sum += u128::from(*slot - before);
        }
    }

    /// Subtracts `amount` that was counted at `then`, unless that slot has expired.
    pub(super) fn subtract(&mut self, amount: u64, then: Duration) {
        if let Some(slot) = self.slot(then.as_secs()) {
            let taken = amount.min(*slot);
            *slot -= taken;
            self.sum -= u128::from(taken);
        }
    }

    /// Returns the amount counted in the minute before `now`, rounded up to whole seconds.
    pub(super) fn sum(&self, now: Duration) -> u64 {
        u64::try_from(self.whole_sum(now)).unwrap_or(u64::MAX)
    }

    /// Returns the time after `now` at which there is room for `amount` under `limit`.
    pub(super) fn room_after(&self, amount: u64, limit: u64, now: Duration) -> Duration {
        let room = u128::from(limit.saturating_sub(amount));
        self.first_second(now, |sum| sum <= room)
    }

    /// Returns the time after `now` at which the count is zero.
    pub(super) fn clear_after(&self, now: Duration) -> Duration {
        let newest = (0..SPAN_SECONDS.min(self.second + 1))
            .map(|age| self.second - age)
            .find(|&second| self.slots[index(second)] > 0);
        newest.map_or(Duration::ZERO, |second| {
            Duration::from_secs(second + SPAN_SECONDS).saturating_sub(now)
        })
    }

    fn whole_sum(&self, now: Duration) -> u128 {
        let gone = now.as_secs().saturating_sub(self.second);
        if gone >= SPAN_SECONDS {
            return 0;
        }
        let fallen = (1..=gone).map(|n| u128::from(self.slots[index(self.second + n)]));
        self.sum - fallen.sum::<u128>()
    }

    /// Returns the time until the first second at which the count satisfies `wanted`.
    fn first_second(&self, now: Duration, wanted: impl Fn(u128) -> bool) -> Duration {
        let mut sum = self.whole_sum(now);
        let first = (now.as_secs() + 1).max(self.second + 1);
        for second in first..first + SPAN_SECONDS {
            // The slot that `second` reuses expires when `second` begins.
            if second - self.second <= SPAN_SECONDS {
                sum = sum.saturating_sub(self.slots[index(second)].into());
            }
            if wanted(sum) {
                return Duration::from_secs(second).saturating_sub(now);
            }
        }
        Duration::from_secs(SPAN_SECONDS)
    }

    /// Returns the slot of `second`, unless it has expired or lies in the future.
    fn slot(&mut self, second: u64) -> Option<&mut u64> {
        let age = self.second.checked_sub(second)?;
        (age < SPAN_SECONDS).then(|| &mut self.slots[index(second)])
    }

    fn advance(&mut self, second: u64) {
        let gone = second.saturating_sub(self.second).min(SPAN_SECONDS);
        for n in 1..=gone {
            let slot = &mut self.slots[index(self.second + n)];
            self.sum -= u128::from(*slot);
            *slot = 0;
        }
        self.second = self.second.max(second);
    }
}

fn index(second: u64) -> usize {
    usize::try_from(second % SPAN_SECONDS).unwrap_or_default()
}
