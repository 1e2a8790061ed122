//! Repeated `kill -9` under load on the same data, each followed by a restart and a reconciliation.

use std::path::PathBuf;
use std::time::Duration;

use domain::durability::Durability;
use gateway::clock::{Clock, SystemClock};
use tempfile::TempDir;

use super::client::Shape;
use super::counters::Counters;
use super::load::Load;
use super::reconcile::Evidence;
use super::rig::{MODEL, Rig};
use super::round::{Drill, Figure, Round};
use super::tampering::{self, Tampering};
use crate::Session;

/// The load and the time of the kill.
#[derive(Clone, Copy, Debug)]
pub struct CrashLoad {
    /// Concurrent clients, each of which sends one request after another.
    pub clients: usize,
    /// When the gateway is killed.
    pub kill: KillTime,
    /// The durability setting. The drill kills only the process; with `power` the gateway also
    /// waits for the disk.
    pub durability: Durability,
}

/// When a gateway under load is killed.
#[derive(Clone, Copy, Debug)]
pub enum KillTime {
    /// After this number of complete responses.
    AfterEnds(usize),
    /// After a random time between these two.
    Between(Duration, Duration),
}

/// A gateway that is killed and restarted.
pub struct Crash {
    rig: Rig,
    options: CrashLoad,
    clock: SystemClock,
    rounds: usize,
    /// The account of the last round and its evidence.
    last: Option<(String, Evidence)>,
}

impl Crash {
    /// Starts the gateway.
    pub async fn prepare(options: CrashLoad) -> Self {
        let (rig, clock) = (Rig::start_for(options.durability).await, SystemClock::new());
        Self { rig, options, clock, rounds: 0, last: None }
    }

    /// Starts the gateway on the PostgreSQL database at `store`.
    pub async fn prepare_on(options: CrashLoad, store: String) -> Self {
        let rig = Rig::start_on(options.durability, Some(store)).await;
        Self { rig, options, clock: SystemClock::new(), rounds: 0, last: None }
    }

    /// Tampers with copies of the data of the last round, in each way. Returns the number of
    /// differences that the reconciliation finds in each.
    ///
    /// # Panics
    /// If there was no round.
    pub async fn tamper(self) -> Vec<(Tampering, usize)> {
        let (account, evidence) = self.last.expect("no round was run");
        let (_dir, data) = self.rig.stop().await;
        let mut found = Vec::new();
        for tampering in Tampering::ALL {
            let differences =
                tampering::tamper_with_copy(&data, tampering, &account, &evidence).await;
            found.push((tampering, differences.len()));
        }
        found
    }

    /// Stops the gateway and returns its data directory with the temporary directory that contains
    /// it.
    pub async fn stop(self) -> (TempDir, PathBuf) {
        self.rig.stop().await
    }
}

impl Drill for Crash {
    /// Loads the gateway, kills it, restarts it and reconciles.
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let name = format!("account-{}", self.rounds);
        let mut customer = self.rig.customer(&name).await;
        let client = self.rig.client(&customer, MODEL);
        let mut load = Load::start(&client, self.options.clients);
        match self.options.kill {
            KillTime::AfterEnds(count) => load.wait_until(|seen| seen.len() >= count).await,
            KillTime::Between(from, to) => {
                let width = u64::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u64::MAX);
                tokio::time::sleep(from + Duration::from_micros(super::draw(width))).await;
            }
        }
        self.rig.kill().await;
        let mut seen = load.join().await;
        let begun = self.clock.monotonic();
        self.rig.start_again().await;
        let replayed = Counters::stored(&self.rig.operator().await).await;
        let first = self
            .rig
            .client(&customer, MODEL)
            .send_request(Shape::Chat, "after the restart", None)
            .await;
        let restart = self.clock.monotonic().saturating_sub(begun);
        seen.push(first.expect("an answer after the restart"));
        customer.session = Session::sign_in(&self.rig.gateway().admin, &name).await;
        let (mut verdict, evidence) = self.rig.reconcile_round(&customer, seen).await;
        // The metrics have what this process has served, and not what it replayed.
        let counted = Counters::scraped(self.rig.gateway().metrics()).await;
        let stored = Counters::stored(&self.rig.operator().await).await.since(replayed);
        if counted != stored {
            verdict.differences.push(format!("metrics have {counted:?}, the store has {stored:?}"));
        }
        self.last = Some((name, evidence));
        Round { verdict, figures: vec![Figure::Time("restart to first answer", restart)] }
    }
}
