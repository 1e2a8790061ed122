//! The polling schedule of the subscribed topics. Only [`Schedule::wait_until_due`] waits; all
//! other functions take the time as an argument.

use tokio::time::{Instant, sleep_until};

use std::time::Duration;

use crate::model::subscription::Topic;

/// The maximum time before a failed fetch is repeated.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The subscribed topics and their due times.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: Vec<ScheduledTopic>,
}

#[derive(Debug)]
struct ScheduledTopic {
    topic: Topic,
    /// When to fetch the topic next. `None` during a fetch, unless another fetch was requested
    /// since it began: its answer may be older than what that request is about.
    due: Option<Instant>,
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
                self.entries.push(ScheduledTopic { topic, due: Some(now), is_in_flight: false });
            }
        }
    }

    /// Returns the due topics and marks them as in flight until [`complete`](Self::complete).
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Topic> {
        let is_due = |due: Instant| due <= now;
        self.entries
            .iter_mut()
            .filter(|entry| !entry.is_in_flight && entry.due.is_some_and(is_due))
            .map(|entry| {
                entry.is_in_flight = true;
                entry.due = None;
                entry.topic
            })
            .collect()
    }

    /// Marks the fetch of `topic` as finished, with data.
    pub(super) fn complete(&mut self, topic: Topic, now: Instant) {
        self.finish(topic, now + refresh_interval(topic));
    }

    /// Marks the fetch of `topic` as finished, without data. It is repeated soon.
    pub(super) fn fail(&mut self, topic: Topic, now: Instant) {
        self.finish(topic, now + refresh_interval(topic).min(MAX_RETRY_INTERVAL));
    }

    fn finish(&mut self, topic: Topic, next: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| entry.topic == topic) {
            entry.due.get_or_insert(next);
            entry.is_in_flight = false;
        }
    }

    /// Makes the subscribed topics among `topics` due no later than `when`.
    pub(super) fn expedite(&mut self, topics: &[Topic], when: Instant) {
        for entry in self.entries.iter_mut().filter(|entry| topics.contains(&entry.topic)) {
            entry.due = Some(entry.due.map_or(when, |due| due.min(when)));
        }
    }

    /// Makes the topics due at `now` whose data depends on the time range and the filter.
    pub(super) fn expedite_usage(&mut self, now: Instant) {
        self.expedite(&[Topic::Usage, Topic::UsageBefore, Topic::Matching], now);
    }

    /// Makes all topics due at `now`.
    pub(super) fn make_all_due(&mut self, now: Instant) {
        self.entries.iter_mut().for_each(|entry| entry.due = Some(now));
    }

    /// Waits until a topic is due. Pending forever if no topic can become due.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn wait_until_due(&self) {
        let idle = self.entries.iter().filter(|entry| !entry.is_in_flight);
        match idle.filter_map(|entry| entry.due).min() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns the polling interval of `topic`.
fn refresh_interval(topic: Topic) -> Duration {
    let seconds = match topic {
        Topic::Limits | Topic::Health | Topic::Nodes | Topic::InFlight => 2,
        Topic::Accounts
        | Topic::Suspension
        | Topic::Audit
        | Topic::Ledger
        | Topic::Invites
        | Topic::People
        | Topic::Sessions => 10,
        Topic::Account | Topic::Keys | Topic::Usage | Topic::Matching | Topic::Upstreams => 30,
        // The traffic stream continues the errors.
        Topic::Models | Topic::Plans | Topic::UsageBefore | Topic::Errors | Topic::Minutes => 60,
        // Streams are not polled.
        Topic::Traffic | Topic::Log => 3_600,
    };
    Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_requested_during_a_fetch_keeps_its_time() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut schedule = Schedule::default();
        schedule.set_topics(&[Topic::Account], start);
        assert_eq!(schedule.take_due(start), [Topic::Account]);
        schedule.expedite(&[Topic::Account], start + second);
        assert_eq!(schedule.take_due(start + second), [], "two fetches at the same time");
        schedule.complete(Topic::Account, start);
        assert_eq!(schedule.take_due(start), []);
        assert_eq!(schedule.take_due(start + second), [Topic::Account]);
    }

    #[test]
    fn a_topic_is_fetched_again_after_its_interval() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.set_topics(&[Topic::Account], start);
        assert_eq!(schedule.take_due(start), [Topic::Account]);
        schedule.complete(Topic::Account, start);
        let interval = refresh_interval(Topic::Account);
        assert_eq!(schedule.take_due(start + interval / 2), []);
        assert_eq!(schedule.take_due(start + interval), [Topic::Account]);
    }

    #[test]
    fn a_failed_fetch_is_repeated_soon() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.set_topics(&[Topic::Minutes], start);
        assert_eq!(schedule.take_due(start), [Topic::Minutes]);
        schedule.fail(Topic::Minutes, start);
        assert_eq!(schedule.take_due(start), []);
        assert_eq!(schedule.take_due(start + MAX_RETRY_INTERVAL), [Topic::Minutes]);
        schedule.fail(Topic::Minutes, start);
        schedule.set_topics(&[], start);
        schedule.set_topics(&[Topic::Minutes], start);
        assert_eq!(schedule.take_due(start), [Topic::Minutes], "no data to show meanwhile");
    }
}
