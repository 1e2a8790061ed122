//! Three gateways on one database under load, with a fault in each round.
//!
//! Their wall clocks differ. `fault` has the kinds of faults, `servers` the servers of the
//! database, if the drill may start them.

mod fault;
mod servers;

use std::path::PathBuf;
use std::time::Duration;

use domain::money::Nanos;
use gateway::clock::{Clock, SystemClock};
use proto::v1;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::servers::DatabaseServers;
use super::choices::Choices;
use super::client::{Client, ObservedResponse, Shape};
use super::load::Load;
use super::reconcile::{self, Evidence, LedgerSnapshot, Reconciliation};
use super::rig::{self, Customer, MODEL};
use super::round::{Drill, Figure, Round};
use super::truth::TruthLogReader;
use crate::process::{Gateway, Simulator};
use crate::{
    ClockShift, GatewayFleet, Link, PostgresDatabase, PostgresPrograms, Session, TEST_TIMEOUT,
    with_timeout,
};

pub use self::fault::Fault;

/// The gateways, and the signs of the offsets of their clocks.
const NODES: [(&str, i64); 3] = [("one", 0), ("two", 1), ("three", -1)];
/// The name of the database.
const DATABASE: &str = "drill_fleet";
/// The patience of the gateways, in seconds.
const PATIENCE_SECONDS: u64 = 2;
/// The patience beyond the longest outage that clients must not notice, in seconds.
const SPARE_PATIENCE_SECONDS: u64 = 30;
/// The requests per minute of the limited key of a round.
const RPM: u32 = 40;
/// The pause between the requests with the limited key at one gateway.
const LIMITED_PAUSE: Duration = Duration::from_millis(20);
/// The balance of the customer in every second round, which does not last for the round.
const SMALL_BALANCE: Nanos = Nanos(20_000_000);
/// The balance of a customer that must last for an outage of the database.
const LARGE_BALANCE: Nanos = Nanos(1_000_000_000_000);
/// The pause of the clients that must not notice an outage, after each answer.
const PACE: Duration = Duration::from_millis(250);
/// The longest time until all records are stored once nothing is in flight. Refusals in one second
/// share a record, which is stored at its end and is not in the journal before.
const MAX_RECORDING: Duration = Duration::from_secs(20);
/// The pause between two reconciliations.
const RECORDING_PAUSE: Duration = Duration::from_millis(200);

/// The settings of the drill.
#[derive(Clone, Debug)]
pub struct FleetSettings {
    /// Concurrent clients of each gateway.
    pub clients: usize,
    /// How long no gateway reaches the database in a [`Fault::StoreOutage`].
    pub store_outage: Duration,
    /// The faults, in turn.
    pub faults: Vec<Fault>,
    /// How many seconds the clock of one gateway is ahead, and that of another one behind.
    pub clock_skew_seconds: i64,
    /// Where the programs of PostgreSQL are, unless they are where Debian installs them.
    pub postgres_bin: Option<PathBuf>,
    /// Determines the random choices.
    pub seed: u64,
}

/// Three gateways, their database, and a simulator.
pub struct FleetDrill {
    settings: FleetSettings,
    fleet: GatewayFleet,
    nodes: Vec<Node>,
    /// `None` if the database is on the server in `TOLLGATE_TEST_POSTGRES`.
    servers: Option<DatabaseServers>,
    clock_shift: Option<ClockShift>,
    simulator: Simulator,
    truth: TruthLogReader,
    clock: SystemClock,
    choices: Choices,
    rounds: usize,
}

struct Node {
    /// The name, which changes when the node is removed and replaced.
    name: String,
    clock_offset: i64,
    link: Link,
    /// The URL of the database through the link.
    url: String,
    gateway: Option<Gateway>,
}

impl FleetDrill {
    /// Starts everything. Without the programs of PostgreSQL, the database is on the server in
    /// `TOLLGATE_TEST_POSTGRES`, and faults of that server are left out. `None` if there is neither, or no
    /// fault is left.
    ///
    /// # Panics
    /// If something does not start.
    pub async fn prepare(mut settings: FleetSettings) -> Option<Self> {
        let programs = PostgresPrograms::find(settings.postgres_bin.as_deref());
        let (servers, fleet) = if let Some(programs) = programs {
            let servers = DatabaseServers::start(programs).await;
            let url = servers.primary().url();
            let mut database = PostgresDatabase::create_on(&url, DATABASE).await;
            let (_, name) = database.url.rsplit_once('/').unwrap();
            database.url = servers.url(name);
            (Some(servers), GatewayFleet::on(database, PATIENCE_SECONDS))
        } else {
            settings.faults.retain(|fault| !fault.needs_server());
            eprintln!("without the programs of PostgreSQL, its server does not crash");
            (None, GatewayFleet::create(DATABASE, PATIENCE_SECONDS).await?)
        };
        if settings.faults.is_empty() {
            return None;
        }
        let truth = fleet.scratch().join("truth.jsonl");
        let simulator = Simulator::start(&truth).await;
        let truth = TruthLogReader::new(&truth);
        let mut nodes = Vec::new();
        for (name, sign) in NODES {
            let (link, url) = Link::start(&fleet.database.url).await;
            let clock_offset = sign * settings.clock_skew_seconds;
            nodes.push(Node { name: name.to_owned(), clock_offset, link, url, gateway: None });
        }
        let clock_shift = match settings.clock_skew_seconds {
            0 => None,
            _ => ClockShift::compile(fleet.scratch()).await,
        };
        let (clock, choices) = (SystemClock::new(), Choices::new(settings.seed));
        let mut drill = Self {
            settings,
            fleet,
            nodes,
            servers,
            clock_shift,
            simulator,
            truth,
            clock,
            choices,
            rounds: 0,
        };
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
        // A server of the drill is deleted with its data.
        if self.servers.is_none() {
            self.fleet.remove().await;
        }
    }

    async fn start(&mut self, number: usize) {
        let Node { name, url, clock_offset, .. } = &self.nodes[number];
        let change = |command: &mut Command| {
            command.env("TOLLGATE_STORE", url);
            rig::configure(command);
            if let Some(shift) = self.clock_shift.as_ref().filter(|_| *clock_offset != 0) {
                shift.apply(command.as_std_mut(), *clock_offset);
            }
        };
        let started = self.fleet.start_with(name, change).await;
        self.nodes[number].gateway = Some(started);
    }

    async fn restart(&mut self, number: usize) {
        self.nodes[number].gateway.take().expect("it runs").stop().await;
        self.start(number).await;
    }

    async fn set_patience(&mut self, seconds: u64) {
        self.fleet.patience_seconds = seconds;
        for number in 0..self.nodes.len() {
            self.restart(number).await;
        }
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

    /// Prepares what the fault of the round needs, before there is load.
    async fn prepare_round(&mut self, fault: Fault) {
        match fault {
            Fault::StoreOutage => {
                let patience = self.settings.store_outage.as_secs() + SPARE_PATIENCE_SECONDS;
                self.set_patience(patience).await;
            }
            Fault::Promotion => {
                self.servers.as_mut().expect("a server of the drill").add_standby().await;
            }
            _ => {}
        }
    }

    /// Registers the customer of the round, with a balance that the fault decides.
    async fn customer(&self, fault: Fault) -> Customer {
        let name = format!("account-{}", self.rounds);
        let mut customer = rig::customer(self.gateway(0), &name).await;
        let balance = if fault == Fault::StoreOutage {
            LARGE_BALANCE
        } else if (self.rounds / self.settings.faults.len()) % 2 == 1 {
            // Each fault meets both.
            SMALL_BALANCE
        } else {
            customer.credit
        };
        let more = balance + -customer.credit;
        if more != Nanos::ZERO {
            self.operator().await.credit(&name, &more.to_string()).await;
        }
        customer.credit = balance;
        customer
    }

    /// Starts the clients of all gateways. Those of an outage have had an answer on return: their
    /// gateway has a part of the balance.
    async fn start_load(&self, fault: Fault, key: &str) -> Vec<Load> {
        let mut loads = Vec::new();
        for number in 0..self.nodes.len() {
            let (client, count) = (self.client(number, key), self.settings.clients);
            if fault == Fault::StoreOutage {
                let mut load = Load::start_paced(&client, count, PACE);
                load.wait_until(|seen| seen.len() >= count).await;
                loads.push(load);
            } else {
                loads.push(Load::start(&client, count));
            }
        }
        loads
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
        is_late.then(|| "requests remain in flight".to_owned())
    }

    /// Reconciles until there is no difference, for a limited time.
    async fn reconcile(&self, customer: &Customer, evidence: &Evidence) -> Reconciliation {
        let operator = self.operator().await;
        let begun = self.clock.monotonic();
        loop {
            let books = LedgerSnapshot::read(&customer.session, &operator).await;
            let verdict = reconcile::reconcile(evidence, &books);
            let waited = self.clock.monotonic().saturating_sub(begun);
            if verdict.differences.is_empty() || waited > MAX_RECORDING {
                return verdict;
            }
            tokio::time::sleep(RECORDING_PAUSE).await;
        }
    }
}

impl Drill for FleetDrill {
    /// Loads all gateways, lets a fault happen, and reconciles.
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let fault = self.settings.faults[self.rounds % self.settings.faults.len()];
        let victim = 1 + self.rounds % 2;
        self.prepare_round(fault).await;
        let customer = self.customer(fault).await;
        let limits = v1::Limits { rpm: Some(RPM.into()), ..Default::default() };
        let limited = customer.session.key_with(|key| key.limits = Some(limits)).await.secret;
        self.wait_for_key(&limited).await;

        let loads = self.start_load(fault, &customer.key).await;
        let stop = CancellationToken::new();
        let mut rated = JoinSet::new();
        for number in 0..self.nodes.len() {
            let asking = ask_limited(self.client(number, &limited), stop.clone());
            rated.spawn(async move { (number, asking.await) });
        }
        let millis = self.choices.below(700, ("pause before the fault", self.rounds));
        tokio::time::sleep(Duration::from_millis(300 + millis as u64)).await;
        let (mut figures, mut differences) = self.apply(fault, victim, &customer.key).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.cancel();
        let mut answers = vec![Vec::new(); self.nodes.len()];
        for (number, seen) in rated.join_all().await {
            answers[number] = seen;
        }
        let (mut seen, mut errors) = (Vec::new(), 0);
        for (number, mut load) in loads.into_iter().enumerate() {
            errors += load.ended_clients();
            let mut ends = load.stop().await;
            errors += ends.iter().filter(|answer| answer.status != 200).count();
            if fault == Fault::Kill && number == victim {
                // A crash loses the counts of refusals of up to a second that share a record.
                let is_answered = |answer: &ObservedResponse| answer.status == 200;
                ends.retain(is_answered);
                answers[number].retain(is_answered);
            }
            seen.extend(ends);
        }
        if fault == Fault::StoreOutage {
            figures.push(Figure::Count("errors of paced clients", errors));
            if errors > 0 {
                differences.push(format!("{errors} errors of clients whose balance was there"));
            }
        }
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        let admitted = answers.iter().filter(|answer| answer.status == 200).count();
        if admitted > RPM as usize {
            differences.push(format!("{admitted} requests within a minute under a limit of {RPM}"));
        }
        seen.extend(answers);
        differences.extend(self.wait_until_idle().await);
        let truth = self.truth.take();
        let exhausted = seen.iter().filter(|answer| answer.status == 429).count();
        let evidence = Evidence { seen, truth, credit: customer.credit };
        let mut verdict = self.reconcile(&customer, &evidence).await;
        verdict.differences.extend(differences.into_iter().map(|it| format!("{fault:?}: {it}")));
        figures.push(Figure::Count("admitted under the limit", admitted));
        figures.push(Figure::Count("refused by a balance or a limit", exhausted));
        if fault == Fault::StoreOutage {
            self.set_patience(PATIENCE_SECONDS).await;
        }
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
