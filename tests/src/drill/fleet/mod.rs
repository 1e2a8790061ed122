//! Three gateways on one database under load, one of which meets a fault in each round.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use domain::money::Nanos;
use gateway::clock::{Clock, SystemClock};
use proto::v1;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::client::{Client, ObservedResponse, Shape};
use super::load::Load;
use super::reconcile::{self, Evidence, LedgerSnapshot};
use super::rig::{self, MODEL};
use super::round::{Drill, Figure, Round};
use super::truth::TruthLogReader;
use crate::process::{Gateway, Simulator};
use crate::{GatewayFleet, Link, Session, TEST_TIMEOUT, with_timeout};

/// The gateways, and the offsets of their clocks for libfaketime.
const NODES: [(&str, &str); 3] = [("one", "-150s"), ("two", "+0s"), ("three", "+150s")];
/// The patience of the gateways, in seconds.
const PATIENCE_SECONDS: u64 = 2;
/// A time that exceeds the patience and the interval of heartbeats.
const BEYOND_PATIENCE: Duration = Duration::from_millis(3_500);
/// The requests per minute of the limited key of a round.
const RPM: u32 = 40;
/// The pause between the requests with the limited key at one gateway.
const LIMITED_PAUSE: Duration = Duration::from_millis(20);
/// The balance of the customer in every second round, which does not last for the round.
const SMALL_BALANCE: Nanos = Nanos(20_000_000);

/// The time after which refusals that share a record are stored; they are not in the journal before.
const REFUSALS_RECORDED: Duration = Duration::from_millis(2_500);

/// What happens to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// It is killed and restarted.
    Kill,
    /// It is suspended for longer than its patience.
    Suspend,
    /// It does not reach the database for longer than its patience.
    Partition,
    /// No gateway reaches the database for a while.
    StoreDown,
    /// It is stopped and restarted, as is the next one, while clients try another gateway.
    RollingRestart,
    /// It is killed and removed, comes back and is refused; a new one takes its place.
    Removal,
}

/// The settings of the drill.
#[derive(Clone, Debug)]
pub struct FleetSettings {
    /// Concurrent clients of each gateway.
    pub clients: usize,
    /// How long no gateway reaches the database, if that is the fault.
    pub store_down: Duration,
    /// The faults, in turn.
    pub faults: Vec<Fault>,
    /// The library that shifts clocks, if there is one.
    pub faketime: Option<PathBuf>,
}

/// Three gateways, their database, and a simulator.
pub struct FleetDrill {
    settings: FleetSettings,
    fleet: GatewayFleet,
    nodes: Vec<Node>,
    simulator: Simulator,
    truth: TruthLogReader,
    clock: SystemClock,
    rounds: usize,
}

struct Node {
    /// The name, which changes when the node is removed and replaced.
    name: String,
    clock_offset: &'static str,
    link: Link,
    /// The URL of the database through the link.
    url: String,
    gateway: Option<Gateway>,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 6] = [
        Self::Kill,
        Self::Suspend,
        Self::Partition,
        Self::RollingRestart,
        Self::StoreDown,
        Self::Removal,
    ];
}

impl FleetDrill {
    /// Starts everything; `None` without a server in `TOLLGATE_TEST_POSTGRES`.
    ///
    /// # Panics
    /// If something does not start.
    pub async fn prepare(settings: FleetSettings) -> Option<Self> {
        let fleet = GatewayFleet::create("drill_fleet", PATIENCE_SECONDS).await?;
        let truth = fleet.scratch().join("truth.jsonl");
        let simulator = Simulator::start(&truth).await;
        let truth = TruthLogReader::new(&truth);
        let mut nodes = Vec::new();
        for (name, clock_offset) in NODES {
            let (link, url) = Link::start(&fleet.database.url).await;
            nodes.push(Node { name: name.to_owned(), clock_offset, link, url, gateway: None });
        }
        let clock = SystemClock::new();
        let mut drill = Self { settings, fleet, nodes, simulator, truth, clock, rounds: 0 };
        for number in 0..NODES.len() {
            drill.start(number).await;
        }
        rig::add_models(&drill.operator().await, &drill.simulator.url).await;
        Some(drill)
    }

    /// Stops the gateways and deletes the database.
    ///
    /// # Panics
    /// If a gateway stops with an error.
    pub async fn finish(self) {
        for node in self.nodes {
            if let Some(gateway) = node.gateway {
                gateway.stop().await;
            }
        }
        self.fleet.remove().await;
    }

    async fn start(&mut self, number: usize) {
        let Node { name, url, clock_offset, .. } = &self.nodes[number];
        let faketime = self.settings.faketime.as_deref();
        let change = |command: &mut Command| {
            command.env("TOLLGATE_STORE", url);
            rig::configure(command);
            if let Some(library) = faketime {
                shift_clock(command, library, clock_offset);
            }
        };
        let started = self.fleet.start_with(name, change).await;
        self.nodes[number].gateway = Some(started);
    }

    fn gateway(&self, number: usize) -> &Gateway {
        self.nodes[number].gateway.as_ref().expect("the gateway runs")
    }

    /// Returns the operator at the first gateway, which meets no fault.
    async fn operator(&self) -> Session {
        self.fleet.operator(&self.nodes[0].name, self.gateway(0)).await
    }

    fn client(&self, number: usize, key: &str) -> Client {
        Client { to: self.gateway(number).http, key: key.to_owned(), model: MODEL }
    }

    /// Waits until the gateways know a key.
    async fn wait_for_key(&self, key: &str) {
        for number in 0..self.nodes.len() {
            let client = self.client(number, key);
            let is_known = async {
                let list = || crate::http::Request::get(client.to, "/v1/models").bearer(key);
                while list().answer().await.status != 200 {}
            };
            with_timeout("a key on every gateway", is_known).await;
        }
    }

    /// Lets a gateway meet the fault. Returns the measurements and the differences that it caused.
    async fn apply(
        &mut self,
        fault: Fault,
        victim: usize,
        key: &str,
    ) -> (Vec<Figure>, Vec<String>) {
        let (mut figures, mut differences) = (Vec::new(), Vec::new());
        match fault {
            Fault::Kill => {
                self.nodes[victim].gateway.take().expect("it runs").kill().await;
                let begun = self.clock.monotonic();
                self.start(victim).await;
                let client = self.client(victim, key);
                let first = client.send_request(Shape::Chat, "after the restart", None).await;
                let time = self.clock.monotonic().saturating_sub(begun);
                figures.push(Figure::Time("restart to first answer", time));
                if first.is_none() {
                    differences.push("no answer after the restart".to_owned());
                }
            }
            Fault::Suspend => {
                self.signal(victim, "STOP").await;
                tokio::time::sleep(BEYOND_PATIENCE).await;
                self.signal(victim, "CONT").await;
            }
            Fault::Partition => {
                self.nodes[victim].link.cut();
                tokio::time::sleep(BEYOND_PATIENCE).await;
                self.nodes[victim].link.mend();
            }
            Fault::StoreDown => {
                self.nodes.iter().for_each(|node| node.link.cut());
                tokio::time::sleep(self.settings.store_down).await;
                self.nodes.iter().for_each(|node| node.link.mend());
            }
            // Each client ends with the gateway that it uses.
            Fault::RollingRestart => {
                for number in [1, 2] {
                    self.nodes[number].gateway.take().expect("it runs").stop().await;
                    self.start(number).await;
                }
            }
            Fault::Removal => differences.extend(self.replace(victim).await),
        }
        for number in 0..self.nodes.len() {
            let client = self.client(number, key);
            let begun = self.clock.monotonic();
            let ready = async {
                let ask = || crate::http::Request::get(client.to, "/readyz");
                while ask().answer().await.status != 200 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            with_timeout("readiness after the fault", ready).await;
            let time = self.clock.monotonic().saturating_sub(begun);
            figures.push(Figure::Time("back after the fault", time));
        }
        (figures, differences)
    }

    /// Kills a gateway, removes it, and starts another one in its place. Returns what went wrong.
    async fn replace(&mut self, victim: usize) -> Option<String> {
        // What only its journal has is lost with it, which is not a difference.
        self.nodes[victim].gateway.take().expect("it runs").stop().await;
        tokio::time::sleep(BEYOND_PATIENCE).await;
        let name = self.nodes[victim].name.clone();
        let removal = v1::RemoveNodeRequest { name: name.clone(), lost: true };
        self.operator().await.nodes().remove_node(removal).await.expect("the removal");
        let refusal = self.fleet.refusal(&name).await;
        self.nodes[victim].name = format!("node-{}", self.rounds);
        self.start(victim).await;
        (!refusal.contains("removed")).then(|| format!("a removed node says: {refusal}"))
    }

    async fn signal(&self, number: usize, name: &str) {
        let (name, id) = (format!("-{name}"), self.gateway(number).id().to_string());
        let sent = Command::new("kill").args([name, id]).status().await.expect("kill runs");
        assert!(sent.success());
    }

    /// Waits until the upstream and the journals are at rest. Returns what remains after the timeout.
    async fn wait_until_idle(&self) -> Option<String> {
        let journals: Vec<_> = self.nodes.iter().map(|node| self.fleet.data(&node.name)).collect();
        let rest = async {
            while !self.truth.is_at_rest() || !journals.iter().all(|it| rig::journal_is_empty(it)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let is_late = tokio::time::timeout(TEST_TIMEOUT, rest).await.is_err();
        tokio::time::sleep(REFUSALS_RECORDED).await;
        is_late.then(|| "requests remain in flight".to_owned())
    }
}

impl Drill for FleetDrill {
    /// Loads all gateways, lets one meet a fault, and reconciles.
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let fault = self.settings.faults[self.rounds % self.settings.faults.len()];
        let victim = 1 + self.rounds % 2;
        let name = format!("account-{}", self.rounds);
        let mut customer = rig::customer(self.gateway(0), &name).await;
        // Each fault meets both.
        if (self.rounds / self.settings.faults.len()) % 2 == 1 {
            let more = SMALL_BALANCE + -customer.credit;
            self.operator().await.credit(&name, &more.to_string()).await;
            customer.credit = SMALL_BALANCE;
        }
        let limits = v1::Limits { rpm: Some(RPM.into()), ..Default::default() };
        let limited = customer.session.key_with(|key| key.limits = Some(limits)).await.secret;
        self.wait_for_key(&limited).await;

        let loads: Vec<_> = (0..self.nodes.len())
            .map(|number| Load::start(&self.client(number, &customer.key), self.settings.clients))
            .collect();
        let stop = CancellationToken::new();
        let mut rated = JoinSet::new();
        for number in 0..self.nodes.len() {
            let asking = ask_limited(self.client(number, &limited), stop.clone());
            rated.spawn(async move { (number, asking.await) });
        }
        tokio::time::sleep(Duration::from_millis(300 + super::draw(700))).await;
        let (mut figures, mut differences) = self.apply(fault, victim, &limited).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.cancel();
        let mut answers = vec![Vec::new(); self.nodes.len()];
        for (number, seen) in rated.join_all().await {
            answers[number] = seen;
        }
        let mut seen = Vec::new();
        for (number, load) in loads.into_iter().enumerate() {
            let mut ends = load.stop().await;
            if fault == Fault::Kill && number == victim {
                // A crash loses the counts of refusals of up to a second that share a record.
                let is_answered = |answer: &ObservedResponse| answer.status == 200;
                ends.retain(is_answered);
                answers[number].retain(is_answered);
            }
            seen.extend(ends);
        }
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        let admitted = answers.iter().filter(|answer| answer.status == 200).count();
        if admitted > RPM as usize {
            differences.push(format!("{admitted} requests within a minute under a limit of {RPM}"));
        }
        seen.extend(answers);
        differences.extend(self.wait_until_idle().await);
        let truth = self.truth.take();
        let books = LedgerSnapshot::read(&customer.session, &self.operator().await).await;
        let exhausted = seen.iter().filter(|answer| answer.status == 429).count();
        let evidence = Evidence { seen, truth, credit: customer.credit };
        let mut verdict = reconcile::reconcile(&evidence, &books);
        verdict.differences.extend(differences);
        figures.push(Figure::Count("admitted under the limit", admitted));
        figures.push(Figure::Count("refused by a balance or a limit", exhausted));
        Round { verdict, figures }
    }
}

/// Sends requests to one gateway until `stop`. Returns the complete responses.
async fn ask_limited(client: Client, stop: CancellationToken) -> Vec<ObservedResponse> {
    let mut seen = Vec::new();
    while !stop.is_cancelled() {
        // A gateway that is down or replaced gives no answer.
        seen.extend(client.send_request(Shape::Chat, "limited", None).await);
        tokio::time::sleep(LIMITED_PAUSE).await;
    }
    seen
}

/// Shifts the wall clock of a process; its monotonic clock stays.
fn shift_clock(command: &mut Command, library: &Path, offset: &str) {
    command.env("LD_PRELOAD", library).env("FAKETIME", offset);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}
