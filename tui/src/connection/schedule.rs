//! When what is fetched next: pure over the time, but for the waiting.

use tokio::time::{Instant, sleep_until};

use std::time::Duration;

use crate::model::interest::Topic;

/// What is of interest, and when each is due.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    topic: Topic,
    due: Instant,
    /// Whether it is being fetched; it is not fetched twice at once.
    busy: bool,
}

// === impl Schedule ===

impl Schedule {
    /// Takes `topics` as what is of interest from now on; those are due that were not before.
    pub(super) fn choose(&mut self, topics: &[Topic], now: Instant) {
        self.places.retain(|place| topics.contains(&place.topic));
        for &topic in topics {
            if !self.places.iter().any(|place| place.topic == topic) {
                self.places.push(Place { topic, due: now, busy: false });
            }
            // the range may be another one
            if topic == Topic::Usage {
                self.hasten(&[Topic::Usage], now);
            }
        }
    }

    /// Returns what is due; it is taken to be under way until it is [`done`](Self::done).
    pub(super) fn take(&mut self, now: Instant) -> Vec<Topic> {
        let due = self.places.iter_mut().filter(|place| !place.busy && place.due <= now);
        due.map(|place| {
            place.busy = true;
            place.due = now + period(place.topic);
            place.topic
        })
        .collect()
    }

    /// Notes that `topic` was fetched.
    pub(super) fn done(&mut self, topic: Topic, now: Instant) {
        for place in self.places.iter_mut().filter(|place| place.topic == topic) {
            // unless it was asked for meanwhile
            if place.due > now {
                place.due = now + period(topic);
            }
            place.busy = false;
        }
    }

    /// Makes those of `topics` that are of interest due at `when`, or before.
    pub(super) fn hasten(&mut self, topics: &[Topic], when: Instant) {
        for place in self.places.iter_mut().filter(|place| topics.contains(&place.topic)) {
            place.due = place.due.min(when);
        }
    }

    /// Makes everything due.
    pub(super) fn all(&mut self, now: Instant) {
        self.places.iter_mut().for_each(|place| place.due = now);
    }

    /// Waits until something is due; for ever, if nothing is. Cancel safe.
    pub(super) async fn ready(&self) {
        let idle = self.places.iter().filter(|place| !place.busy);
        match idle.map(|place| place.due).min() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns how often something is fetched while it is of interest and nothing hastens it.
fn period(topic: Topic) -> Duration {
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
