//! The wall clock of the database, which all its gateways use.
//!
//! A host's clock may be wrong by minutes. With the clock of its host, a gateway would serve keys and
//! sessions that ended on the others, delete what they keep, and count requests to another month.
//!
//! Invariant: the time differs from the database's by at most the duration of one reading, and the drift of the
//! host's monotonic clock since then. That clock stands still while the host is suspended; the next reading makes up
//! for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{MissedTickBehavior, interval};

use crate::clock::Clock;
use store::StoreError;
use store::fleet::DatabaseClock;

/// The time between two readings.
const INTERVAL: Duration = Duration::from_secs(10);
/// A difference that an operator should know of.
const REPORTED: SignedDuration = SignedDuration::from_secs(5);

/// The clock of the database. Between readings, the host's monotonic clock continues it.
pub struct SharedClock {
    host: Arc<dyn Clock>,
    database: Arc<dyn DatabaseClock>,
    /// The database's time at the zero of the host's monotonic clock, in microseconds since 1970. A step of the
    /// host's wall clock does not change it.
    start: AtomicI64,
}

impl SharedClock {
    /// Creates the clock with a first reading.
    pub async fn read(
        host: Arc<dyn Clock>,
        database: Arc<dyn DatabaseClock>,
    ) -> Result<Self, StoreError> {
        let start = micros(host.now().duration_since(Timestamp::UNIX_EPOCH));
        let start = start.saturating_sub(micros_of(host.monotonic()));
        let clock = Self { host, database, start: AtomicI64::new(start) };
        clock.correct().await?;
        Ok(clock)
    }

    /// Keeps the clock correct, without an end.
    pub async fn run(self: Arc<Self>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Heartbeats report that the database is not reached; the last correction stays.
            _ = self.correct().await;
        }
    }

    /// Reads the database's clock. A difference that the duration of the reading explains changes
    /// nothing.
    async fn correct(&self) -> Result<(), StoreError> {
        let (asked_at, sent) = (self.now(), self.host.monotonic());
        let read = self.database.time().await?;
        let duration = self.host.monotonic().saturating_sub(sent);
        let expected = asked_at.saturating_add(duration / 2).unwrap_or(Timestamp::MAX);
        let difference = read.duration_since(expected);
        if difference.abs() > SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX) {
            self.start.fetch_add(micros(difference), Ordering::Relaxed);
            if difference.abs() > REPORTED {
                let ahead_seconds = self.now().duration_since(self.host.now()).as_secs();
                tracing::warn!(
                    ahead_seconds,
                    "the clock of the database differs from this host's, and is used"
                );
            }
        }
        Ok(())
    }
}

fn micros(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or_default()
}

fn micros_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        let start = self.start.load(Ordering::Relaxed);
        let now = start.saturating_add(micros_of(self.host.monotonic()));
        Timestamp::from_microsecond(now).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.host.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;

    /// A clock of a host, or of the database, whose readings take `TAKES`.
    struct SetClock(Mutex<(Timestamp, Duration)>);

    const TAKES: Duration = Duration::from_millis(100);

    impl SetClock {
        fn at(time: &str) -> Arc<Self> {
            Arc::new(Self(Mutex::new((time.parse().unwrap(), Duration::ZERO))))
        }

        fn advance(&self, by: Duration) {
            let mut clock = self.0.lock().unwrap();
            *clock = (clock.0 + by, clock.1 + by);
        }

        fn set(&self, time: &str) {
            self.0.lock().unwrap().0 = time.parse().unwrap();
        }
    }

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            self.0.lock().unwrap().0
        }

        fn monotonic(&self) -> Duration {
            self.0.lock().unwrap().1
        }
    }

    /// A database that answers with the time in the middle of a reading, or does not answer.
    struct Database {
        host: Arc<SetClock>,
        time: Mutex<Option<Timestamp>>,
    }

    #[async_trait]
    impl DatabaseClock for Database {
        async fn time(&self) -> Result<Timestamp, StoreError> {
            self.host.advance(TAKES);
            self.time.lock().unwrap().ok_or(StoreError::Unavailable("unreachable".into()))
        }
    }

    #[tokio::test]
    async fn the_time_is_that_of_the_database_as_far_as_a_reading_can_tell() {
        let host = SetClock::at("2026-11-25T12:05:00Z");
        let answer = |time: &str| Mutex::new(Some(time.parse().unwrap()));
        let database =
            Arc::new(Database { host: host.clone(), time: answer("2026-11-25T12:00:00Z") });
        let clock = SharedClock::read(host.clone(), database.clone()).await.unwrap();
        let check = |expected: &str| assert_eq!(clock.now(), expected.parse().unwrap());
        check("2026-11-25T12:00:00.05Z");
        // The middle of this reading is at 12:00:00.1.
        *database.time.lock().unwrap() = Some("2026-11-25T12:00:00.199Z".parse().unwrap());
        clock.correct().await.unwrap();
        check("2026-11-25T12:00:00.15Z");
        // The host's clock is set right.
        host.set("2026-11-25T12:00:00.3Z");
        check("2026-11-25T12:00:00.15Z");
        *database.time.lock().unwrap() = Some("2026-11-25T12:00:00.35Z".parse().unwrap());
        clock.correct().await.unwrap();
        check("2026-11-25T12:00:00.4Z");
        *database.time.lock().unwrap() = None;
        assert!(clock.correct().await.is_err());
        check("2026-11-25T12:00:00.5Z");
        assert_eq!(clock.monotonic(), 4 * TAKES);
    }
}
