//! The time by which old data is deleted: the wall clock, unless it jumped.
//!
//! A wall clock that was set wrongly, and far ahead, would have retention delete everything. After a jump, the time
//! continues from the last trusted one at the pace of the monotonic clock, until the new time was in force for an hour.
//!
//! The hour may consist of several runs of the gateway, so that retention catches up on a host that never runs for an
//! hour. Then only the time at which the first of these runs began is trusted, and what has passed in the runs: the clock
//! has said at least that for an hour. A clock that went back begins a new hour.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use store::UnconfirmedTime;

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
    /// The wall clock at the jump, which may have been in an earlier run.
    first: Timestamp,
    /// How long earlier runs had this time.
    earlier: Duration,
}

/// What an observation has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The wall clock differs by this much from where it should be; positive if it is ahead.
    Jumped(SignedDuration),
    /// The new time was in force for an hour, and is trusted.
    Confirmed,
    /// The clock has been past this time for an hour, in several runs. The present time is not trusted yet.
    Advanced(Timestamp),
}

impl TrustedTime {
    /// Starts at the wall clock `wall`. `known` is the last time that was trusted: a wall clock that differs from
    /// it by more than an hour is not trusted yet, whether it was set or the gateway was stopped for long.
    /// `unconfirmed` is the clock of the last runs, if it was not trusted.
    pub(super) fn start(
        wall: Timestamp,
        monotonic: Duration,
        known: Option<Timestamp>,
        unconfirmed: Option<UnconfirmedTime>,
    ) -> (Self, Option<Event>) {
        let mut time = Self { wall, monotonic, jump: None };
        let Some(known) = known else { return (time, None) };
        let ahead = wall.duration_since(known);
        if ahead.abs() <= MAX_DRIFT {
            return (time, None);
        }
        let (first, earlier) = match unconfirmed {
            Some(before) if before.last <= wall => (before.first, before.uptime),
            _ => (wall, Duration::ZERO),
        };
        time.jump = Some(Jump { since: monotonic, trusted: known, first, earlier });
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
            self.jump = Some(Jump::to(wall, monotonic, trusted));
            event = Some(Event::Jumped(ahead));
        } else if let Some(jump) = self.jump.filter(|jump| jump.uptime(monotonic) >= CONFIRMATION) {
            let confirmed = jump.confirmed(monotonic).min(wall);
            let is_present = wall.duration_since(confirmed) <= MAX_DRIFT;
            self.jump = (!is_present).then(|| Jump::to(wall, monotonic, confirmed));
            event = Some(if is_present { Event::Confirmed } else { Event::Advanced(confirmed) });
        }
        (self.wall, self.monotonic) = (wall, monotonic);
        let trusted = self.jump.map_or(wall, |jump| jump.now(monotonic).min(wall));
        (trusted, event)
    }

    /// Returns the clock that is not trusted, for the next run.
    pub(super) fn unconfirmed(&self) -> Option<UnconfirmedTime> {
        let jump = self.jump?;
        let uptime = jump.uptime(self.monotonic);
        Some(UnconfirmedTime { first: jump.first, last: self.wall, uptime })
    }
}

impl Jump {
    /// A jump to `wall` now.
    fn to(wall: Timestamp, monotonic: Duration, trusted: Timestamp) -> Self {
        Self { since: monotonic, trusted, first: wall, earlier: Duration::ZERO }
    }

    /// Returns how long the new time was in force, in all runs.
    fn uptime(self, monotonic: Duration) -> Duration {
        self.earlier.saturating_add(monotonic.saturating_sub(self.since))
    }

    /// Returns the time that the clock has certainly passed if it was right for an hour.
    fn confirmed(self, monotonic: Duration) -> Timestamp {
        advanced(self.first, self.uptime(monotonic)).max(self.now(monotonic))
    }

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
        let (mut time, none) = TrustedTime::start(at(0), after(0), Some(at(-60)), None);
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
        let (mut time, _) = TrustedTime::start(at(0), after(0), None, None);
        assert_eq!(time.observe(at(100 * HOUR), after(60)).0, at(60));
        let (trusted, event) = time.observe(at(120), after(120));
        assert_eq!(trusted, at(120));
        assert!(matches!(event, Some(Event::Jumped(by)) if by.is_negative()));
    }

    #[test]
    fn a_jump_back_is_never_exceeded() {
        let (mut time, _) = TrustedTime::start(at(100 * HOUR), after(0), None, None);
        assert_eq!(time.observe(at(HOUR), after(60)).0, at(HOUR));
    }

    #[test]
    fn slow_corrections_are_no_jump() {
        let (mut time, _) = TrustedTime::start(at(0), after(0), None, None);
        for minute in 1..600 {
            // The clock gains half an hour per minute.
            let wall = at(minute * 1_860);
            assert_eq!(time.observe(wall, after(minute * 60)), (wall, None));
        }
    }

    #[test]
    fn at_start_the_time_continues_from_the_last_trusted_one() {
        for (newest, ahead) in [(at(0), 100), (at(200 * HOUR), -100)] {
            let (mut time, event) =
                TrustedTime::start(at(100 * HOUR), after(0), Some(newest), None);
            assert_eq!(event, Some(Event::Jumped(SignedDuration::from_hours(ahead))));
            let expected = newest.min(at(100 * HOUR)) + SignedDuration::from_secs(60);
            assert_eq!(time.observe(at(100 * HOUR + 60), after(60)), (expected, None));
        }
    }

    /// Runs for half an hour from `wall` on. Returns what is known then, and the last event.
    fn half_an_hour(
        wall: i64,
        known: Timestamp,
        unconfirmed: Option<UnconfirmedTime>,
    ) -> (Timestamp, Option<UnconfirmedTime>, Option<Event>) {
        let (mut time, mut last) = TrustedTime::start(at(wall), after(0), Some(known), unconfirmed);
        let mut trusted = known;
        for minute in 1..=30 {
            let (now, event) = time.observe(at(wall + 60 * minute), after(60 * minute));
            trusted = now;
            last = event.or(last);
        }
        (trusted, time.unconfirmed(), last)
    }

    #[test]
    fn a_host_that_runs_half_an_hour_a_day_catches_up() {
        let (day, begin) = (24 * HOUR, 1_000 * HOUR);
        let (mut known, mut unconfirmed) = (at(0), None);
        for run in 0..10 {
            let wall = begin + run * day;
            (known, unconfirmed, _) = half_an_hour(wall, known, unconfirmed);
            assert!(known <= at(wall + HOUR / 2), "never later than the clock");
            if run > 2 {
                assert!(known >= at(wall - 3 * day), "it is at most some days behind");
            }
        }
    }

    #[test]
    fn a_clock_that_was_ahead_in_one_short_run_is_never_trusted() {
        let year = 365 * 24 * HOUR;
        let (known, unconfirmed, event) = half_an_hour(year, at(0), None);
        assert!(known <= at(HOUR) && matches!(event, Some(Event::Jumped(_))));
        // The next run has the right time, which is behind.
        let (known, unconfirmed, _) = half_an_hour(2 * HOUR, known, unconfirmed);
        let (known, _, _) = half_an_hour(3 * HOUR, known, unconfirmed);
        assert!(known <= at(4 * HOUR), "{known}");
    }
}
