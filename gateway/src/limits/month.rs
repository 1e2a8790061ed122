//! Counts the tokens of a calendar month in UTC.
//!
//! There is no reset job: each access first rolls the counter to the current month.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

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

/// Returns the first moment of the month of `now`, in UTC.
pub fn month_start(now: Timestamp) -> Timestamp {
    month_of(now).0
}

/// Returns the beginning and the end of the month of `now`. The last month of the calendar has no end.
fn month_of(now: Timestamp) -> (Timestamp, Timestamp) {
    let first = now.to_zoned(TimeZone::UTC).date().first_of_month();
    let next = first.last_of_month().tomorrow();
    let midnight = |day: Date| day.to_zoned(TimeZone::UTC).map(|day| day.timestamp());
    (midnight(first).unwrap_or(Timestamp::MIN), next.and_then(midnight).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_month_ends_where_the_next_begins() {
        for (now, start, end) in [
            ("2026-11-20T12:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
            ("2026-12-31T23:59:59.999999999Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("2028-02-29T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
            ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(month_of(at(now)), (at(start), at(end)), "{now}");
        }
        assert_eq!(month_of(Timestamp::MAX).1, Timestamp::MAX);
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
