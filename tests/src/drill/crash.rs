//! `kill -9` in mid-load, again and again on the same data, and what is left each time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gateway::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use gateway::domain::money::Nanos;
use gateway::simulator::Entry;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{self, Seen, Shape};
use super::reconcile::{self, Logs, Verdict};
use crate::Session;
use crate::process::{Gateway, Simulator};
use crate::product::{password_of, priced_model};

const MODEL: &str = "drilled";

/// How hard the gateway is pressed.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Clients that ask one request after the other.
    pub workers: usize,
    /// The shortest time before the kill.
    pub at_least: Duration,
    /// The longest.
    pub at_most: Duration,
}

/// A gateway in front of a simulator of its own, both processes.
pub struct Crash {
    dir: TempDir,
    gateway: Option<Gateway>,
    _simulator: Simulator,
    /// How many lines of the truth log belong to earlier rounds.
    read: usize,
    rounds: usize,
    load: Load,
    clock: SystemClock,
}

/// What a round came to.
#[derive(Clone, Debug)]
pub struct Round {
    /// Its number, from 1.
    pub number: usize,
    /// From the start of the process to its first answer.
    pub restart: Duration,
    /// What the logs say.
    pub verdict: Verdict,
}

impl Crash {
    /// Starts both.
    ///
    /// # Panics
    /// They do not start.
    pub async fn prepare(load: Load) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let simulator = Simulator::start(&truth_log(dir.path())).await;
        let gateway = start(dir.path()).await;
        let operator = operator(&gateway, dir.path()).await;
        let upstream = proto::v1::Upstream {
            name: "simulator".to_owned(),
            url: simulator.url.clone(),
            ..Default::default()
        };
        operator.add_upstream(upstream).await;
        operator.add_model(priced_model(MODEL, &[("simulator", "sim-chat")])).await;
        let clock = SystemClock::new();
        let gateway = Some(gateway);
        Self { dir, gateway, _simulator: simulator, read: 0, rounds: 0, load, clock }
    }

    /// Loads the gateway, kills it, starts it again and compares.
    ///
    /// # Panics
    /// It does not come back.
    pub async fn round(&mut self) -> Round {
        self.rounds += 1;
        let name = format!("account-{}", self.rounds);
        let gateway = self.gateway.take().expect("it runs between rounds");
        let member = Session::register(&gateway.admin, &name, &password_of(&name)).await;
        let credit = balance(&member).await;
        let key = member.key().await.secret;
        let (sender, mut ends) = mpsc::unbounded_channel();
        let mut clients = JoinSet::new();
        for worker in 0..self.load.workers {
            let (key, sender) = (key.clone(), sender.clone());
            clients.spawn(client::ask_on(gateway.http, key, MODEL.to_owned(), worker, sender));
        }
        drop(sender);
        tokio::time::sleep(self.moment()).await;
        gateway.kill().await;
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
        let mut seen: Vec<Seen> = Vec::new();
        while let Some(end) = ends.recv().await {
            seen.push(end);
        }

        let killed = self.clock.monotonic();
        let gateway = start(self.dir.path()).await;
        let first = client::ask(gateway.http, &key, MODEL, Shape::Chat, "still there?").await;
        let restart = self.clock.monotonic().saturating_sub(killed);
        seen.push(first.expect("an answer after the restart"));
        let member = Session::sign_in(&gateway.admin, &name).await;
        let last = seen.last().map(|end| end.id.clone()).unwrap_or_default();
        let records = reconcile::records_with(&member, &last).await;
        let truth = self.truth();
        let balance = balance(&member).await;
        let logs = Logs { seen: &seen, truth: &truth, records: &records, credit, balance };
        let verdict = reconcile::reconcile(&logs);
        self.gateway = Some(gateway);
        Round { number: self.rounds, restart, verdict }
    }

    /// Stops the gateway, and returns its data directory with what holds it.
    ///
    /// # Panics
    /// It does not end well.
    pub async fn stop(mut self) -> (TempDir, PathBuf) {
        self.gateway.take().expect("it runs between rounds").stop().await;
        let data = data(self.dir.path());
        (self.dir, data)
    }

    /// When to kill.
    fn moment(&self) -> Duration {
        let mut random = [0; 4];
        SystemEntropy.fill(&mut random);
        let part = f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX);
        let Load { at_least, at_most, .. } = self.load;
        at_least + at_most.saturating_sub(at_least).mul_f64(part)
    }

    /// What the simulator was asked since the last round, as it stands last.
    fn truth(&mut self) -> Vec<Entry> {
        let text = std::fs::read_to_string(truth_log(self.dir.path())).unwrap();
        let lines: Vec<_> = text.lines().skip(self.read).collect();
        self.read += lines.len();
        let mut entries = std::collections::BTreeMap::new();
        for line in lines {
            let entry: Entry = serde_json::from_str(line).unwrap();
            entries.insert(entry.seq, entry);
        }
        entries.into_values().collect()
    }
}

fn truth_log(dir: &Path) -> PathBuf {
    dir.join("truth.jsonl")
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

async fn start(dir: &Path) -> Gateway {
    let quiet = "warn,gateway::app=info,gateway::ledger=info";
    let change = |command: &mut tokio::process::Command| {
        command.args(["--no-simulator", "--log", quiet]);
    };
    Gateway::start(&data(dir), change).await
}

async fn operator(gateway: &Gateway, dir: &Path) -> Session {
    let token = std::fs::read_to_string(data(dir).join("operator.token")).unwrap();
    Session::with_token(&gateway.admin, "operator", token.trim()).await
}

async fn balance(who: &Session) -> Nanos {
    who.account().await.balance_usd.parse().unwrap()
}
