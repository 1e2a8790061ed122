//! The setup of every drill: the real gateway in front of the real simulator, with accounts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::durability::Durability;
use domain::money::Nanos;
use domain::price::Price;
use proto::v1;
use tempfile::TempDir;
use tokio::process::Command;

use super::client::{Client, ObservedResponse, Shape};
use super::reconcile::{self, Evidence, LedgerSnapshot, Reconciliation};
use super::spellings::LENIENT;
use super::truth::TruthLogReader;
use crate::process::{self, Gateway, Simulator};
use crate::product::{password_of, priced_model};
use crate::{Session, TEST_TIMEOUT};

/// The model for ordinary requests.
pub const MODEL: &str = "drilled";
/// A model whose output costs one nanodollar per token and whose input is free. The cap that the
/// gateway sends to the upstream is what the account can spend, in nanodollars.
pub const BALANCE_PROBE: &str = "balance-probe";
/// An expensive model, whose long answers cost dollars.
pub const EXPENSIVE: &str = "expensive";

/// The models and their prices per million input, cached and output tokens.
const MODELS: [(&str, [i64; 3]); 3] = [
    (MODEL, [1_000_000_000, 100_000_000, 2_000_000_000]),
    (BALANCE_PROBE, [0, 0, 1_000_000]),
    (EXPENSIVE, [1_000_000_000, 100_000_000, 200_000_000_000]),
];

/// A number of tokens that no account can pay for with any model.
const UNPAYABLE: u64 = 1 << 50;

/// A gateway in front of a simulator, each in a process.
pub struct Rig {
    dir: TempDir,
    /// The path of the gateway's data directory as the test sees it.
    data: PathBuf,
    simulator: Simulator,
    truth: TruthLogReader,
    /// The durability setting, for restarts.
    durability: Durability,
    /// The URL of the database, if it is not in the data directory, for restarts.
    store: Option<String>,
    gateway: Option<Gateway>,
}

/// An account with a key.
pub struct Customer {
    /// The session; invalid after a restart.
    pub session: Session,
    /// The text of the key.
    pub key: String,
    /// The sum of all credits.
    pub credit: Nanos,
}

/// Returns the price of a model of the drills.
pub(super) fn price_of(model: &str) -> Option<Price> {
    let model = if model.starts_with(LENIENT) { EXPENSIVE } else { model };
    let (_, [input, cached, output]) = MODELS.into_iter().find(|(id, _)| *id == model)?;
    Some(Price { input: Nanos(input), cached: Nanos(cached), output: Nanos(output), version: 1 })
}

/// Returns the command that runs the gateway.
fn gateway(durability: Durability, store: Option<&str>) -> Command {
    let mut command = process::command("gateway");
    command.env("TOLLGATE_METRICS_LISTEN", "127.0.0.1:0");
    if let Some(url) = store {
        command.env("TOLLGATE_STORE", url);
    }
    if durability == Durability::Power {
        command.env("TOLLGATE_DURABILITY", "power");
    }
    command
}

/// Starts a gateway on the data in `data`, which is killed on drop.
pub(super) async fn serve(command: Command, data: &Path) -> Gateway {
    Gateway::serve(command, data, configure).await
}

/// Sets what every drill sets.
pub(super) fn configure(command: &mut Command) {
    command.args(["--no-simulator", "--log", "warn,gateway::app=info,gateway::ledger=info"]);
    // each round registers new accounts, from one address and on one day
    command.args(["--registrations-per-hour", "0", "--trial-daily-usd", "1000000"]);
}

/// Adds the models of the drills, on the simulator at `url`.
pub(super) async fn add_models(operator: &Session, url: &str) {
    let upstream =
        v1::Upstream { name: "simulator".to_owned(), url: url.to_owned(), ..Default::default() };
    operator.add_upstream(upstream).await;
    for (id, prices) in MODELS {
        let [input_usd, cached_usd, output_usd] = prices.map(|price| Nanos(price).to_string());
        let mut model = priced_model(id, &[("simulator", "sim-chat")]);
        model.price = Some(v1::Price { input_usd, cached_usd, output_usd, version: 0 });
        operator.add_model(model).await;
    }
}

impl Rig {
    /// Starts both on an ordinary disk.
    pub async fn start() -> Self {
        Self::start_for(Durability::Process).await
    }

    /// Starts both on an ordinary disk, the gateway with this durability.
    pub async fn start_for(durability: Durability) -> Self {
        Self::start_on(durability, None).await
    }

    /// Like [`start_for`](Self::start_for), on the database at the URL `store`, if any.
    pub async fn start_on(durability: Durability, store: Option<String>) -> Self {
        let command = |_: &Path| gateway(durability, store.as_deref());
        let rig = Self::start_within(command, |data, _| data.to_owned()).await;
        Self { durability, store, ..rig }
    }

    /// Starts both. `command` makes the gateway's command for a data directory, and `visible_path`
    /// maps that directory and the process id to the path at which the test sees it.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn start_within(
        command: impl FnOnce(&Path) -> Command,
        visible_path: impl FnOnce(&Path, u32) -> PathBuf,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let truth = dir.path().join("truth.jsonl");
        let simulator = Simulator::start(&truth).await;
        let data = data(dir.path());
        let gateway = serve(command(&data), &data).await;
        let data = visible_path(&data, gateway.id());
        let truth = TruthLogReader::new(&truth);
        let durability = Durability::Process;
        let gateway = Some(gateway);
        let rig = Self { dir, data, simulator, truth, durability, store: None, gateway };
        add_models(&rig.operator().await, &rig.simulator.url).await;
        rig
    }

    /// Returns the gateway.
    ///
    /// # Panics
    /// If it was killed.
    pub fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("the gateway runs between rounds")
    }

    /// Returns the simulator.
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// Returns the path of the gateway's data directory as the test sees it.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Kills the gateway with `SIGKILL`.
    ///
    /// # Panics
    /// If it was killed before.
    pub async fn kill(&mut self) {
        self.gateway.take().expect("the gateway runs between rounds").kill().await;
    }

    /// Restarts the gateway on the same data.
    pub async fn start_again(&mut self) {
        self.gateway =
            Some(serve(gateway(self.durability, self.store.as_deref()), &self.data).await);
    }

    /// Stops the gateway and returns its data directory with the temporary directory that contains
    /// it.
    ///
    /// # Panics
    /// If it stops with an error.
    pub async fn stop(mut self) -> (TempDir, PathBuf) {
        self.gateway.take().expect("the gateway runs between rounds").stop().await;
        (self.dir, self.data)
    }

    /// Returns a session of the operator.
    ///
    /// # Panics
    /// If there is no token.
    pub async fn operator(&self) -> Session {
        operator(self.gateway(), &self.data).await
    }

    /// Registers an account and creates a key.
    pub async fn customer(&self, name: &str) -> Customer {
        customer(self.gateway(), name).await
    }

    /// Credits or debits the account until its balance is `wanted`.
    pub async fn fund(&self, customer: &mut Customer, wanted: Nanos) {
        let more = wanted + -balance(&customer.session).await;
        if more != Nanos::ZERO {
            self.operator().await.credit(&customer.session.name, &more.to_string()).await;
            customer.credit = customer.credit + more;
        }
    }

    /// Returns a client that uses `model` with the customer's key.
    pub fn client(&self, customer: &Customer, model: &'static str) -> Client {
        Client { to: self.gateway().http, key: customer.key.clone(), model }
    }

    /// Waits until nothing is in flight: the upstream has ended all requests and the journal is
    /// empty, so the store has every record. Returns what remains after the timeout.
    pub async fn wait_until_idle(&self) -> Option<String> {
        let rest = async {
            while !self.truth.is_at_rest() || !journal_is_empty(&self.data) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let is_late = tokio::time::timeout(TEST_TIMEOUT, rest).await.is_err();
        is_late.then(|| {
            let (upstream, journal) = (self.truth.is_at_rest(), journal_is_empty(&self.data));
            format!("requests remain in flight: upstream {upstream}, journal {journal}")
        })
    }

    /// Returns how many requests have reached the upstream since the last reconciliation.
    pub fn upstream_requests(&mut self) -> usize {
        self.truth.take().len()
    }

    /// Returns the amount that the customer can spend, measured as the cap to which a request
    /// without a reasonable cap is lowered, and the response for the evidence.
    ///
    /// # Panics
    /// If there is no response.
    pub async fn spendable(&self, customer: &Customer) -> (Nanos, ObservedResponse) {
        let request = self.client(customer, BALANCE_PROBE).request(
            Shape::ChatStream,
            "all of it",
            Some(UNPAYABLE),
        );
        let answer = request.answer().await;
        let cap = answer.header("x-tollgate-translation").strip_prefix("output_cap_lowered=");
        let cap = cap.and_then(|cap| cap.parse().ok()).unwrap_or_default();
        (Nanos(cap), ObservedResponse::of(Shape::ChatStream, &answer).expect("a complete response"))
    }

    /// Waits until nothing is in flight, and reconciles the logs of the round. `customer` must be
    /// the only one with requests.
    pub async fn reconcile_round(
        &mut self,
        customer: &Customer,
        seen: Vec<ObservedResponse>,
    ) -> (Reconciliation, Evidence) {
        let unrest = self.wait_until_idle().await;
        let evidence = Evidence { seen, truth: self.truth.take(), credit: customer.credit };
        let books = LedgerSnapshot::read(&customer.session, &self.operator().await).await;
        let mut verdict = reconcile::reconcile(&evidence, &books);
        verdict.differences.extend(unrest);
        (verdict, evidence)
    }
}

/// Returns a session of the operator of a gateway on the data in `data`.
///
/// # Panics
/// If there is no token or it is rejected.
pub async fn operator(gateway: &Gateway, data: &Path) -> Session {
    let token = std::fs::read_to_string(data.join("operator.token")).unwrap();
    Session::with_token(&gateway.admin, "operator", token.trim()).await
}

/// Registers an account at a gateway and creates a key.
pub(super) async fn customer(gateway: &Gateway, name: &str) -> Customer {
    let session = Session::register(&gateway.admin, name, &password_of(name)).await;
    let credit = balance(&session).await;
    let key = session.key().await.secret;
    Customer { session, key, credit }
}

pub(super) async fn balance(caller: &Session) -> Nanos {
    caller.account().await.balance_usd.parse().unwrap()
}

/// Returns whether the journal contains only zeros after the heads of its files. Requests in
/// flight, and records that the store does not have yet, leave entries there.
pub(super) fn journal_is_empty(data: &Path) -> bool {
    const HEAD: usize = 16;
    let segments = std::fs::read_dir(data.join("journal")).unwrap();
    // a segment may be removed meanwhile
    let mut segments = segments.filter_map(|file| std::fs::read(file.ok()?.path()).ok());
    segments.all(|segment| segment.iter().skip(HEAD).all(|&byte| byte == 0))
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}
