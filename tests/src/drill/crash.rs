//! `kill -9` in mid-load, again and again on the same data, and what is left each time.

use std::path::PathBuf;
use std::time::Duration;

use domain::durability::Durability;
use gateway::clock::{Clock, SystemClock};
use tempfile::TempDir;

use super::client::Shape;
use super::load::Load;
use super::reconcile::Evidence;
use super::rig::{MODEL, Rig};
use super::round::{Drill, Figure, Round};
use super::sabotage::{self, Sabotage};
use crate::Session;

/// How hard the gateway is pressed.
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    /// Clients that ask one request after the other.
    pub clients: usize,
    /// When it is killed.
    pub kill: Kill,
    /// What its words are to outlive. A drill only ever kills the process: this makes it wait for the
    /// disk.
    pub durability: Durability,
}

/// When a gateway under load is killed.
#[derive(Clone, Copy, Debug)]
pub enum Kill {
    /// Once so many answers were seen to their end.
    AfterEnds(usize),
    /// At a random moment between these two.
    Between(Duration, Duration),
}

/// A gateway that is killed, and all that it has gone through.
pub struct Crash {
    rig: Rig,
    pressure: Pressure,
    clock: SystemClock,
    rounds: usize,
    /// The account that asked in the last round, and what is known of that.
    last: Option<(String, Evidence)>,
}

impl Crash {
    /// Starts the gateway.
    pub async fn prepare(pressure: Pressure) -> Self {
        let (rig, clock) = (Rig::start_for(pressure.durability).await, SystemClock::new());
        Self { rig, pressure, clock, rounds: 0, last: None }
    }

    /// Spoils copies of what the last round left, one way after the other, and returns how many
    /// differences the reconciliation finds in each.
    ///
    /// # Panics
    /// There was no round.
    pub async fn sabotage(self) -> Vec<(Sabotage, usize)> {
        let (account, evidence) = self.last.expect("a round comes before");
        let (_dir, data) = self.rig.stop().await;
        let mut found = Vec::new();
        for sabotage in Sabotage::ALL {
            let differences = sabotage::spoil(&data, sabotage, &account, &evidence).await;
            found.push((sabotage, differences.len()));
        }
        found
    }

    /// Stops the gateway, and returns its data directory with what holds it.
    pub async fn stop(self) -> (TempDir, PathBuf) {
        self.rig.stop().await
    }
}

impl Drill for Crash {
    /// Loads the gateway, kills it, starts it again and compares.
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let name = format!("account-{}", self.rounds);
        let mut customer = self.rig.customer(&name).await;
        let client = self.rig.client(&customer, MODEL);
        let mut load = Load::start(&client, self.pressure.clients);
        match self.pressure.kill {
            Kill::AfterEnds(count) => load.until(|seen| seen.len() >= count).await,
            Kill::Between(from, to) => {
                let width = u64::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u64::MAX);
                tokio::time::sleep(from + Duration::from_micros(super::draw(width))).await;
            }
        }
        self.rig.kill().await;
        let mut seen = load.give_up().await;
        let begun = self.clock.monotonic();
        self.rig.start_again().await;
        let first = self.rig.client(&customer, MODEL).ask(Shape::Chat, "still there?", None).await;
        let restart = self.clock.monotonic().saturating_sub(begun);
        seen.push(first.expect("an answer after the restart"));
        customer.session = Session::sign_in(&self.rig.gateway().admin, &name).await;
        let (verdict, evidence) = self.rig.judge(&customer, seen).await;
        self.last = Some((name, evidence));
        Round { verdict, figures: vec![Figure::Time("restart to first answer", restart)] }
    }
}
