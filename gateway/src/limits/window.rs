//! A count over the last minute, in slots of a second.
//!
//! Sliding, so that no burst around a full minute passes twice the limit. There is one slot more
//! than a minute has seconds: what happened late in the oldest second must count for its whole
//! minute, too, so the limit is kept on the strict side, by less than a second.

use std::time::Duration;

const SLOTS: usize = 61;

/// How much happened in the last minute, and up to a second more.
#[derive(Debug)]
pub(super) struct Window {
    slots: [u64; SLOTS],
    /// The second that the newest slot stands for.
    second: u64,
    sum: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { slots: [0; SLOTS], second: 0, sum: 0 }
    }
}

impl Window {
    /// Counts `amount` at `now`.
    pub(super) fn add(&mut self, amount: u64, now: Duration) {
        self.advance(now.as_secs());
        let slot = &mut self.slots[index(self.second)];
        *slot = slot.saturating_add(amount);
        self.sum = self.sum.saturating_add(amount);
    }

    /// Takes back `amount` that was just counted.
    pub(super) fn remove(&mut self, amount: u64, now: Duration) {
        self.advance(now.as_secs());
        let slot = &mut self.slots[index(self.second)];
        let taken = amount.min(*slot);
        *slot -= taken;
        self.sum -= taken;
    }

    /// What was counted in the minute before `now`, at least.
    pub(super) fn sum(&self, now: Duration) -> u64 {
        let gone = now.as_secs().saturating_sub(self.second);
        match usize::try_from(gone) {
            Ok(0) => self.sum,
            Ok(gone) if gone < SLOTS => {
                let fallen: u64 =
                    (1..=gone as u64).map(|n| self.slots[index(self.second + n)]).sum();
                self.sum - fallen
            }
            _ => 0,
        }
    }

    /// How long after `now` the count falls below `limit`.
    pub(super) fn free_at(&self, limit: u64, now: Duration) -> Duration {
        let mut sum = self.sum(now);
        let first = (now.as_secs() + 1).max(self.second + 1);
        for second in first..first + SLOTS as u64 {
            // the slot that `second` takes over falls out when `second` begins
            if second - self.second <= SLOTS as u64 {
                sum = sum.saturating_sub(self.slots[index(second)]);
            }
            if sum < limit {
                return Duration::from_secs(second).saturating_sub(now);
            }
        }
        Duration::from_secs(SLOTS as u64)
    }

    fn advance(&mut self, second: u64) {
        let gone = second.saturating_sub(self.second).min(SLOTS as u64);
        for n in 1..=gone {
            let slot = &mut self.slots[index(self.second + n)];
            self.sum -= *slot;
            *slot = 0;
        }
        self.second = self.second.max(second);
    }
}

fn index(second: u64) -> usize {
    usize::try_from(second % SLOTS as u64).unwrap_or_default()
}
