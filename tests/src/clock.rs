//! A clock that advances only when the test advances it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gateway::clock::Clock;
use jiff::{SignedDuration, Timestamp};

/// A clock that advances only through [`advance`](Self::advance). Clones share the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    start: Timestamp,
    elapsed: Arc<Mutex<Duration>>,
    wall_ahead: Arc<Mutex<SignedDuration>>,
}

impl ManualClock {
    /// Returns a clock at `start`, an RFC 3339 timestamp.
    ///
    /// # Panics
    /// If `start` is not a valid timestamp.
    pub fn at(start: &str) -> Self {
        Self { start: start.parse().unwrap(), elapsed: Arc::default(), wall_ahead: Arc::default() }
    }

    /// Advances the wall clock and the monotonic clock.
    pub fn advance(&self, by: Duration) {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// Returns the right time, whatever the wall clock shows.
    pub fn right_time(&self) -> Timestamp {
        self.start + self.monotonic()
    }

    /// Sets the wall clock to a wrong time, this much ahead of the right one. The monotonic clock does not change.
    pub fn set_wall_ahead(&self, by: SignedDuration) {
        *self.wall_ahead.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.right_time() + *self.wall_ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn monotonic(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
