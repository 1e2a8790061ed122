//! Calendar months in UTC, which quotas count in.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Returns the first moment of the month of `at`.
pub fn month_start(at: Timestamp) -> Timestamp {
    month_of(at).0
}

/// Returns the beginning and the end of the month of `at`. The last month of the calendar has no end.
pub fn month_of(at: Timestamp) -> (Timestamp, Timestamp) {
    let first = at.to_zoned(TimeZone::UTC).date().first_of_month();
    let next = first.last_of_month().tomorrow();
    let midnight = |day: Date| day.to_zoned(TimeZone::UTC).map(|day| day.timestamp());
    (midnight(first).unwrap_or(Timestamp::MIN), next.and_then(midnight).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_ends_where_the_next_begins() {
        let at = |text: &str| text.parse().unwrap();
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
}
