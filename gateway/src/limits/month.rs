//! Counts the tokens of a calendar month in UTC.
//!
//! There is no reset job: each access first rolls the counter to the current month.

use jiff::Timestamp;

use domain::month::month_of;

/// The usage of one subject in the current month.
#[derive(Debug)]
pub(super) struct Month {
    start: Timestamp,
    end: Timestamp,
    /// Tokens of requests that have ended.
    used: u64,
    /// Tokens reserved for requests in progress.
    reserved: u64,
}

impl Default for Month {
    fn default() -> Self {
        Self { start: Timestamp::MIN, end: Timestamp::MIN, used: 0, reserved: 0 }
    }
}

impl Month {
    /// Switches to the month of `now`. Requests that began before it do not count in it.
    pub(super) fn roll(&mut self, now: Timestamp) {
        if now >= self.end {
            let (start, end) = month_of(now);
            *self = Self { start, end, used: 0, reserved: 0 };
        }
    }

    /// Counts tokens of requests that have ended.
    pub(super) fn spend(&mut self, tokens: u64) {
        self.used = self.used.saturating_add(tokens);
    }

    /// Reserves tokens for a request that began at `began`.
    pub(super) fn reserve(&mut self, tokens: u64, began: Timestamp) {
        if began >= self.start {
            self.reserved = self.reserved.saturating_add(tokens);
        }
    }

    /// Releases tokens that were reserved for a request that began at `began`.
    pub(super) fn release(&mut self, tokens: u64, began: Timestamp) {
        if began >= self.start {
            self.reserved = self.reserved.saturating_sub(tokens);
        }
    }

    /// Replaces the reservation of a request that began at `began` by its usage.
    pub(super) fn settle(&mut self, reserved: u64, used: u64, began: Timestamp) {
        self.roll(began);
        if began >= self.start {
            self.reserved = self.reserved.saturating_sub(reserved);
            self.spend(used);
        }
    }

    /// Returns the tokens of requests that have ended.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the tokens reserved for requests in progress.
    pub(super) const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns the tokens used and reserved.
    pub(super) const fn committed(&self) -> u64 {
        self.used.saturating_add(self.reserved)
    }

    /// Returns the start of the month.
    pub(super) const fn start(&self) -> Timestamp {
        self.start
    }

    /// Returns the end of the month.
    pub(super) const fn end(&self) -> Timestamp {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn what_began_in_an_earlier_month_does_not_count_in_this_one() {
        let (before, after) = (at("2026-11-30T23:59:59Z"), at("2026-12-01T00:00:01Z"));
        let mut month = Month::default();
        month.roll(before);
        month.reserve(50, before);
        month.spend(7);
        assert_eq!((month.used(), month.committed()), (7, 57));
        month.roll(after);
        assert_eq!(month.committed(), 0);
        month.reserve(10, before);
        month.settle(50, 40, before);
        assert_eq!(month.committed(), 0);
        month.reserve(10, after);
        month.settle(10, 3, after);
        assert_eq!((month.used(), month.committed()), (3, 3));
    }
}
