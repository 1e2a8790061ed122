//! The time by which old data is deleted: the wall clock, unless it jumped.
//!
//! A wall clock that was set wrongly, and far ahead, would have retention delete everything. After a jump, the time
//! continues from the last trusted one at the pace of the monotonic clock, until the new time was in force for an hour.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A greater difference between the wall clock and the monotonic clock is a jump.
const MAX_DRIFT: SignedDuration = SignedDuration::from_hours(1);
/// How long a new time must be in force until it is trusted.
const CONFIRMATION: Duration = Duration::from_hours(1);

/// Readings of both clocks, and whether the wall clock is trusted.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrustedTime {
    /// The wall clock at the last observation.
    wall: Timestamp,
    /// The monotonic clock at the last observation.
    monotonic: Duration,
    /// The unconfirmed jump, if there is one.
    jump: Option<Jump>,
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    /// The monotonic clock at the jump.
    since: Duration,
    /// The trusted time at the jump.
    trusted: Timestamp,
}

/// What an observation has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The wall clock differs by this much from where it should be; positive if it is ahead.
    Jumped(SignedDuration),
    /// The new time was in force for an hour, and is trusted.
    Confirmed,
}

impl TrustedTime {
    /// Starts at the wall clock `wall`. `known` is the last time that was trusted: a wall clock that differs from
    /// it by more than an hour is not trusted yet, whether it was set or the gateway was stopped for long.
    pub(super) fn start(
        wall: Timestamp,
        monotonic: Duration,
        known: Option<Timestamp>,
    ) -> (Self, Option<Event>) {
        let mut time = Self { wall, monotonic, jump: None };
        let Some(known) = known else { return (time, None) };
        let ahead = wall.duration_since(known);
        if ahead.abs() <= MAX_DRIFT {
            return (time, None);
        }
        time.jump = Some(Jump { since: monotonic, trusted: known });
        (time, Some(Event::Jumped(ahead)))
    }

    /// Compares both clocks with the last observation. Returns the time by which data may be deleted, which is never
    /// later than the wall clock, and what was found.
    pub(super) fn observe(
        &mut self,
        wall: Timestamp,
        monotonic: Duration,
    ) -> (Timestamp, Option<Event>) {
        let expected = advanced(self.wall, monotonic.saturating_sub(self.monotonic));
        let ahead = wall.duration_since(expected);
        let mut event = None;
        if ahead.abs() > MAX_DRIFT {
            let trusted = self.jump.map_or(expected, |jump| jump.now(monotonic));
            self.jump = Some(Jump { since: monotonic, trusted });
            event = Some(Event::Jumped(ahead));
        } else if self.jump.is_some_and(|jump| monotonic.saturating_sub(jump.since) >= CONFIRMATION)
        {
            self.jump = None;
            event = Some(Event::Confirmed);
        }
        (self.wall, self.monotonic) = (wall, monotonic);
        let trusted = self.jump.map_or(wall, |jump| jump.now(monotonic).min(wall));
        (trusted, event)
    }
}

impl Jump {
    fn now(self, monotonic: Duration) -> Timestamp {
        advanced(self.trusted, monotonic.saturating_sub(self.since))
    }
}

fn advanced(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn after(seconds: i64) -> Duration {
        Duration::from_secs(u64::try_from(seconds).unwrap())
    }

    #[test]
    fn a_jump_ahead_is_used_only_after_an_hour_at_the_new_time() {
        let (mut time, none) = TrustedTime::start(at(0), after(0), Some(at(-60)));
        assert_eq!(none, None);
        assert_eq!(time.observe(at(60), after(60)), (at(60), None));
        let year = 365 * 24 * HOUR;
        let jumped = Event::Jumped(SignedDuration::from_secs(year));
        assert_eq!(time.observe(at(year + 120), after(120)), (at(120), Some(jumped)));
        let almost = 120 + HOUR - 1;
        assert_eq!(time.observe(at(year + almost), after(almost)), (at(almost), None));
        let (now, wall) = (after(120 + HOUR), at(year + 120 + HOUR));
        assert_eq!(time.observe(wall, now), (wall, Some(Event::Confirmed)));
    }

    #[test]
    fn a_jump_that_is_undone_leaves_the_old_time() {
        let (mut time, _) = TrustedTime::start(at(0), after(0), None);
        assert_eq!(time.observe(at(100 * HOUR), after(60)).0, at(60));
        let (trusted, event) = time.observe(at(120), after(120));
        assert_eq!(trusted, at(120));
        assert!(matches!(event, Some(Event::Jumped(by)) if by.is_negative()));
    }

    #[test]
    fn a_jump_back_is_never_exceeded() {
        let (mut time, _) = TrustedTime::start(at(100 * HOUR), after(0), None);
        assert_eq!(time.observe(at(HOUR), after(60)).0, at(HOUR));
    }

    #[test]
    fn slow_corrections_are_no_jump() {
        let (mut time, _) = TrustedTime::start(at(0), after(0), None);
        for minute in 1..600 {
            // The clock gains half an hour per minute.
            let wall = at(minute * 1_860);
            assert_eq!(time.observe(wall, after(minute * 60)), (wall, None));
        }
    }

    #[test]
    fn at_start_the_time_continues_from_the_last_trusted_one() {
        for (newest, ahead) in [(at(0), 100), (at(200 * HOUR), -100)] {
            let (mut time, event) = TrustedTime::start(at(100 * HOUR), after(0), Some(newest));
            assert_eq!(event, Some(Event::Jumped(SignedDuration::from_hours(ahead))));
            let expected = newest.min(at(100 * HOUR)) + SignedDuration::from_secs(60);
            assert_eq!(time.observe(at(100 * HOUR + 60), after(60)), (expected, None));
        }
    }
}
