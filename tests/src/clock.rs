//! A clock that moves only when it is told to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gateway::clock::Clock;
use jiff::Timestamp;

/// A clock that moves only when it is told to. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock {
    start: Timestamp,
    elapsed: Arc<Mutex<Duration>>,
}

impl ManualClock {
    /// A clock that stands at `start`, written as RFC 3339.
    ///
    /// # Panics
    /// `start` is no time.
    pub fn at(start: &str) -> Self {
        Self { start: start.parse().unwrap(), elapsed: Arc::default() }
    }

    /// Moves both its times on.
    pub fn advance(&self, by: Duration) {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.start + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
