//! Whether this node may serve requests: it reached the database recently enough.
//!
//! Invariant: a node whose process or network was suspended refuses requests from its first
//! instruction on, before any task of it runs, because the check compares times and no task sets a
//! flag. A node that the others may have given up, or that knows neither revoked keys nor suspended
//! accounts, therefore serves nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The last contact with the database, and what it said about this node. Read by each request.
#[derive(Debug)]
pub struct StoreContact {
    /// `None` if the database is in the data directory.
    patience: Option<Duration>,
    start: Instant,
    /// The time of the last contact, in milliseconds since `start`.
    last_ms: AtomicU64,
    is_draining: AtomicBool,
}

impl StoreContact {
    /// Creates the contact of a node that refuses requests once it did not reach the database for
    /// longer than `patience`. Must be called before the node joins.
    pub fn new(patience: Option<Duration>) -> Self {
        Self {
            patience,
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Returns whether requests may be served.
    pub fn is_recent(&self) -> bool {
        let Some(patience) = self.patience else { return true };
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last) <= patience
    }

    /// Returns whether an operator drains this node: it serves requests, and reports that it is not
    /// ready.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Records that the database answered a question that was sent at `at`.
    pub(super) fn record(&self, at: Instant) {
        let since = at.saturating_duration_since(self.start).as_millis();
        self.last_ms.fetch_max(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sets whether this node drains. Returns whether that is a change.
    pub(super) fn set_draining(&self, is_draining: bool) -> bool {
        self.is_draining.swap(is_draining, Ordering::Relaxed) != is_draining
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn contact_lasts_for_the_patience_after_the_question_was_sent() {
        let contact = StoreContact::new(Some(Duration::from_secs(2)));
        advance(Duration::from_secs(1)).await;
        let sent = Instant::now();
        advance(Duration::from_secs(1)).await;
        contact.record(sent);
        assert!(contact.is_recent());
        advance(Duration::from_secs(1)).await;
        assert!(contact.is_recent());
        advance(Duration::from_millis(1)).await;
        assert!(!contact.is_recent());
        // An older answer that arrives late changes nothing.
        contact.record(Instant::now());
        contact.record(sent);
        assert!(contact.is_recent());
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_in_the_data_directory_is_always_reached() {
        let contact = StoreContact::new(None);
        advance(Duration::from_hours(1_000)).await;
        assert!(contact.is_recent());
    }
}
