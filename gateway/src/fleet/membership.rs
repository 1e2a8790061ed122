//! Keeps this node a member of the database: a heartbeat each second, and what its answers say.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::contact::StoreContact;
use crate::ledger::Ledger;
use domain::change::ChangeSeq;
use domain::node::NodeFigures;
use store::fleet::{Fenced, Heartbeat, HeartbeatOutcome, Membership};
use store::{Cursor, StoreError};

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest time that a heartbeat waits for its answer.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The number of heartbeats that may be lost one after the other before the patience ends.
const ATTEMPTS: u32 = 3;

/// The load of this gateway, from which the figures of heartbeats are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that went upstream and have not ended.
    pub in_flight: u64,
    /// Requests that ended since the start.
    pub ended_requests: u64,
    /// Records that the database does not have yet.
    pub waiting_records: u64,
}

type ReadLoad = Box<dyn Fn() -> Load + Send + Sync>;

/// The heartbeats of this node.
pub struct Heartbeats {
    store: Arc<dyn Membership>,
    contact: Arc<StoreContact>,
    /// The longest time that one waits for its answer.
    limit: Duration,
    /// Unset until the gateway serves.
    load: OnceLock<ReadLoad>,
    newest: watch::Sender<Cursor>,
    /// The number of failovers of the database since the start.
    failovers: watch::Sender<u64>,
}

/// The requests that had ended by the last heartbeat that was recorded.
struct LastReading {
    at: Instant,
    ended_requests: u64,
}

impl Heartbeats {
    /// Creates the heartbeats of a node that refuses requests after a silence of `patience`.
    pub fn new(store: Arc<dyn Membership>, contact: Arc<StoreContact>, patience: Duration) -> Self {
        Self {
            store,
            contact,
            limit: MAX_WAIT.min(patience / ATTEMPTS),
            load: OnceLock::new(),
            newest: watch::Sender::new(Cursor(0)),
            failovers: watch::Sender::new(0),
        }
    }

    /// Sets the source of the figures, which are zero before. Must be called at most once.
    pub fn set_load(&self, read: impl Fn() -> Load + Send + Sync + 'static) {
        _ = self.load.set(Box::new(read));
    }

    /// Returns a watch of the cursor of the newest request record of any node.
    pub fn newest(&self) -> watch::Receiver<Cursor> {
        self.newest.subscribe()
    }

    /// Returns a watch of the number of failovers of the database since the start.
    pub fn failovers(&self) -> watch::Receiver<u64> {
        self.failovers.subscribe()
    }

    /// Sends heartbeats until this process is fenced. Must run as long as the gateway uses the
    /// store; the gateway must then stop.
    pub async fn run(&self) -> Fenced {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = LastReading { at: Instant::now(), ended_requests: 0 };
        let mut is_failing = false;
        let mut previous = None;
        loop {
            ticks.tick().await;
            let started = Instant::now();
            let load = self.load.get().map(|read| read()).unwrap_or_default();
            let outcome = self.store.heartbeat(last.figures(load, started), self.limit).await;
            match outcome {
                Ok(HeartbeatOutcome::Fenced(reason)) => return reason,
                Ok(HeartbeatOutcome::Recorded(answer)) => {
                    last = LastReading { at: started, ended_requests: load.ended_requests };
                    if std::mem::take(&mut is_failing) {
                        tracing::info!("the database is reached again");
                    }
                    self.accept(answer, started, previous);
                    previous = Some((answer.newest_change, started));
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        log_failure(&error);
                    }
                }
            }
        }
    }

    /// Records what a heartbeat that was sent at `sent_at` has learned. A node that does not apply the changes of
    /// others has no contact: keys may have been revoked. `previous` is the newest change at the heartbeat before, which
    /// must be applied by now, and the time of that heartbeat.
    fn accept(&self, answer: Heartbeat, sent_at: Instant, previous: Option<(ChangeSeq, Instant)>) {
        if answer.applied_change >= answer.newest_change {
            self.contact.record(sent_at);
        } else if let Some((_, then)) =
            previous.filter(|(newest, _)| answer.applied_change >= *newest)
        {
            self.contact.record(then);
        }
        let is_failover =
            |(newest, _): (ChangeSeq, _)| newest.timeline != answer.newest_change.timeline;
        if previous.is_some_and(is_failover) {
            tracing::warn!("a standby of the database has taken over");
            self.failovers.send_modify(|count| *count += 1);
        }
        if self.contact.set_draining(answer.is_draining) {
            let draining = answer.is_draining;
            tracing::info!(draining, "an operator changed whether this node drains");
        }
        self.newest.send_if_modified(|newest| {
            let grew = answer.newest > *newest;
            *newest = answer.newest.max(*newest);
            grew
        });
    }
}

impl LastReading {
    fn figures(&self, load: Load, now: Instant) -> NodeFigures {
        let elapsed_ms = now.saturating_duration_since(self.at).as_millis().max(1);
        let ended = u128::from(load.ended_requests.saturating_sub(self.ended_requests));
        let per_second = (ended * 1_000 + elapsed_ms / 2) / elapsed_ms;
        NodeFigures {
            in_flight: load.in_flight,
            requests_per_second: u64::try_from(per_second).unwrap_or(u64::MAX),
            waiting_records: load.waiting_records,
        }
    }
}

/// Publishes records of other nodes to the watchers of `ledger`, as heartbeats report them.
pub async fn publish_commits(ledger: Arc<Ledger>, mut newest: watch::Receiver<Cursor>) {
    while newest.changed().await.is_ok() {
        let cursor = *newest.borrow_and_update();
        ledger.note_committed_elsewhere(cursor);
    }
}

fn log_failure(error: &StoreError) {
    let error: &dyn std::error::Error = error;
    tracing::warn!(error, "cannot reach the database; requests are served until the patience ends");
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use tokio::time::advance;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// Answers with prepared outcomes, then fences; keeps the figures.
    #[derive(Default)]
    struct Script {
        outcomes: Mutex<VecDeque<Result<HeartbeatOutcome, StoreError>>>,
        figures: Mutex<Vec<NodeFigures>>,
    }

    #[async_trait]
    impl Membership for Script {
        async fn heartbeat(
            &self,
            figures: NodeFigures,
            _: Duration,
        ) -> Result<HeartbeatOutcome, StoreError> {
            self.figures.lock().unwrap().push(figures);
            let next = self.outcomes.lock().unwrap().pop_front();
            next.unwrap_or(Ok(HeartbeatOutcome::Fenced(Fenced::Removed)))
        }
    }

    fn recorded(is_draining: bool, newest: i64) -> HeartbeatOutcome {
        let newest = Cursor(newest);
        HeartbeatOutcome::Recorded(Heartbeat { is_draining, newest, ..Heartbeat::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_report_the_load_and_keep_the_contact_until_the_node_is_fenced() {
        let script = Arc::new(Script::default());
        let failure = Err(StoreError::Unavailable("unreachable".into()));
        let outcomes = [Ok(recorded(false, 7)), failure, Ok(recorded(true, 5))];
        *script.outcomes.lock().unwrap() = outcomes.into();
        let contact = Arc::new(StoreContact::new(Some(PATIENCE)));
        advance(2 * PATIENCE).await;
        let heartbeats = Heartbeats::new(script.clone(), contact.clone(), PATIENCE);
        let ended = std::sync::atomic::AtomicU64::new(0);
        heartbeats.set_load(move || Load {
            in_flight: 3,
            ended_requests: ended.fetch_add(10, std::sync::atomic::Ordering::Relaxed),
            waiting_records: 4,
        });
        assert!(!contact.is_recent());
        assert_eq!(heartbeats.run().await, Fenced::Removed);
        assert!(contact.is_recent() && contact.is_draining());
        assert_eq!(*heartbeats.newest().borrow(), Cursor(7));
        let figures = script.figures.lock().unwrap();
        let rates: Vec<_> = figures.iter().map(|it| it.requests_per_second).collect();
        // The third reports two seconds: the second was not recorded.
        assert_eq!(rates, [0, 10, 10, 10]);
        assert_eq!((figures[3].in_flight, figures[3].waiting_records), (3, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn another_timeline_is_a_failover() {
        let in_timeline = |timeline| {
            let newest_change = ChangeSeq { timeline, number: 1 };
            Ok(HeartbeatOutcome::Recorded(Heartbeat { newest_change, ..Heartbeat::default() }))
        };
        let script = Script::default();
        *script.outcomes.lock().unwrap() = [1, 1, 2, 2, 3].map(in_timeline).into();
        let contact = Arc::new(StoreContact::new(Some(PATIENCE)));
        let heartbeats = Heartbeats::new(Arc::new(script), contact, PATIENCE);
        heartbeats.run().await;
        assert_eq!(*heartbeats.failovers().borrow(), 2);
    }

    /// Regression test: a gateway that did not learn of revoked keys served them as long as its heartbeats succeeded.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_does_not_apply_changes_has_no_contact() {
        let script = Arc::new(Script::default());
        let change = |number| ChangeSeq { timeline: 1, number };
        let beat = |newest, applied| {
            let (newest_change, applied_change) = (change(newest), change(applied));
            let heartbeat = Heartbeat { newest_change, applied_change, ..Heartbeat::default() };
            Ok(HeartbeatOutcome::Recorded(heartbeat))
        };
        let contact = Arc::new(StoreContact::new(Some(2 * INTERVAL)));
        let check = async |outcomes: Vec<_>, is_recent| {
            *script.outcomes.lock().unwrap() = outcomes.into();
            Heartbeats::new(script.clone(), contact.clone(), PATIENCE).run().await;
            assert_eq!(contact.is_recent(), is_recent);
        };
        check(vec![beat(5, 5)], true).await;
        // It is one heartbeat late at most.
        check(vec![beat(6, 5), beat(7, 6), beat(8, 7), beat(9, 8)], true).await;
        check(vec![beat(9, 8), beat(9, 8), beat(9, 8), beat(9, 8)], false).await;
    }
}
