//! The polling schedule of the subscribed topics. Only [`Schedule::wait_until_due`] waits; all
//! other functions take the time as an argument.

use tokio::time::{Instant, sleep_until};

use std::time::Duration;

use crate::model::subscription::Topic;

/// The subscribed topics and their due times.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: Vec<ScheduledTopic>,
}

#[derive(Debug)]
struct ScheduledTopic {
    topic: Topic,
    due: Instant,
    /// Whether a fetch is running. A topic has at most one fetch in flight.
    is_in_flight: bool,
}

// === impl Schedule ===

impl Schedule {
    /// Replaces the set of topics. New topics are due now.
    pub(super) fn set_topics(&mut self, topics: &[Topic], now: Instant) {
        self.entries.retain(|entry| topics.contains(&entry.topic));
        for &topic in topics {
            if !self.entries.iter().any(|entry| entry.topic == topic) {
                self.entries.push(ScheduledTopic { topic, due: now, is_in_flight: false });
            }
            // The time range may have changed.
            if topic == Topic::Usage {
                self.expedite(&[Topic::Usage], now);
            }
        }
    }

    /// Returns the due topics and marks them as in flight until [`complete`](Self::complete).
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Topic> {
        let due = self.entries.iter_mut().filter(|entry| !entry.is_in_flight && entry.due <= now);
        due.map(|entry| {
            entry.is_in_flight = true;
            entry.due = now + refresh_interval(entry.topic);
            entry.topic
        })
        .collect()
    }

    /// Marks the fetch of `topic` as finished.
    pub(super) fn complete(&mut self, topic: Topic, now: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| entry.topic == topic) {
            // Keep the due time if the topic was expedited during the fetch.
            if entry.due > now {
                entry.due = now + refresh_interval(topic);
            }
            entry.is_in_flight = false;
        }
    }

    /// Makes the subscribed topics among `topics` due no later than `when`.
    pub(super) fn expedite(&mut self, topics: &[Topic], when: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| topics.contains(&entry.topic)) {
            entry.due = entry.due.min(when);
        }
    }

    /// Makes all topics due at `now`.
    pub(super) fn make_all_due(&mut self, now: Instant) {
        self.entries.iter_mut().for_each(|entry| entry.due = now);
    }

    /// Waits until a topic is due. Pending forever if no topic can become due.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn wait_until_due(&self) {
        let idle = self.entries.iter().filter(|entry| !entry.is_in_flight);
        match idle.map(|entry| entry.due).min() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns the polling interval of `topic`.
fn refresh_interval(topic: Topic) -> Duration {
    let seconds = match topic {
        Topic::Limits | Topic::Health | Topic::Nodes => 2,
        Topic::Accounts | Topic::Audit | Topic::Keys => 10,
        Topic::Account | Topic::Usage | Topic::Upstreams => 30,
        Topic::Models | Topic::Plans => 60,
        // Streams are not polled.
        Topic::Traffic | Topic::Log => 3_600,
    };
    Duration::from_secs(seconds)
}
