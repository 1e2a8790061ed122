//! When what is fetched next: pure over the time, but for the waiting.

use tokio::time::{Instant, sleep_until};

use std::time::Duration;

use crate::model::subscription::Topic;

/// What is of interest, and when each is due.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: Vec<ScheduledTopic>,
}

#[derive(Debug)]
struct ScheduledTopic {
    topic: Topic,
    due: Instant,
    /// Whether it is being fetched; it is not fetched twice at once.
    is_in_flight: bool,
}

// === impl Schedule ===

impl Schedule {
    /// Takes `topics` as what is of interest from now on; those are due that were not before.
    pub(super) fn set_topics(&mut self, topics: &[Topic], now: Instant) {
        self.entries.retain(|entry| topics.contains(&entry.topic));
        for &topic in topics {
            if !self.entries.iter().any(|entry| entry.topic == topic) {
                self.entries.push(ScheduledTopic { topic, due: now, is_in_flight: false });
            }
            // the range may be another one
            if topic == Topic::Usage {
                self.expedite(&[Topic::Usage], now);
            }
        }
    }

    /// Returns what is due; it is taken to be under way until it is [`complete`](Self::complete).
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Topic> {
        let due = self.entries.iter_mut().filter(|entry| !entry.is_in_flight && entry.due <= now);
        due.map(|entry| {
            entry.is_in_flight = true;
            entry.due = now + refresh_interval(entry.topic);
            entry.topic
        })
        .collect()
    }

    /// Notes that `topic` was fetched.
    pub(super) fn complete(&mut self, topic: Topic, now: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| entry.topic == topic) {
            // unless it was asked for meanwhile
            if entry.due > now {
                entry.due = now + refresh_interval(topic);
            }
            entry.is_in_flight = false;
        }
    }

    /// Makes those of `topics` that are of interest due at `when`, or before.
    pub(super) fn expedite(&mut self, topics: &[Topic], when: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| topics.contains(&entry.topic)) {
            entry.due = entry.due.min(when);
        }
    }

    /// Makes everything due.
    pub(super) fn make_all_due(&mut self, now: Instant) {
        self.entries.iter_mut().for_each(|entry| entry.due = now);
    }

    /// Waits until something is due; for ever, if nothing is. Cancel safe.
    pub(super) async fn wait_until_due(&self) {
        let idle = self.entries.iter().filter(|entry| !entry.is_in_flight);
        match idle.map(|entry| entry.due).min() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns how often something is fetched while it is of interest and nothing hastens it.
fn refresh_interval(topic: Topic) -> Duration {
    let seconds = match topic {
        Topic::Limits | Topic::Health => 2,
        Topic::Accounts | Topic::Audit | Topic::Keys => 10,
        Topic::Account | Topic::Usage | Topic::Upstreams => 30,
        Topic::Models | Topic::Plans => 60,
        // these come as streams
        Topic::Traffic | Topic::Log => 3_600,
    };
    Duration::from_secs(seconds)
}
