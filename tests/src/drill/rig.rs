//! What every drill plays on: the real gateway in front of the real simulator, and who asks it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::durability::Durability;
use domain::money::Nanos;
use domain::price::Price;
use proto::v1;
use tempfile::TempDir;
use tokio::process::Command;

use super::client::{Client, Seen, Shape};
use super::reconcile::{self, Books, Evidence, Verdict};
use super::spellings::LENIENT;
use super::truth::Truth;
use crate::process::{self, Gateway, Simulator};
use crate::product::{password_of, priced_model};
use crate::{PATIENCE, Session};

/// The model that drills ask.
pub const MODEL: &str = "drilled";
/// A model whose output alone costs something, a nanodollar a token: the cap that it is lowered to is
/// what its account can spend, in nanodollars.
pub const PURSE: &str = "purse";
/// A dear model, whose long answers are worth dollars.
pub const DEAR: &str = "dear";

/// The models, and what a million of their input, cached and output tokens costs.
const MODELS: [(&str, [i64; 3]); 3] = [
    (MODEL, [1_000_000_000, 100_000_000, 2_000_000_000]),
    (PURSE, [0, 0, 1_000_000]),
    (DEAR, [1_000_000_000, 100_000_000, 200_000_000_000]),
];

/// What nobody can pay, in tokens of any model.
const UNPAYABLE: u64 = 1 << 50;

/// A gateway in front of a simulator of its own, both processes.
pub struct Rig {
    dir: TempDir,
    /// Where we find the gateway's data.
    data: PathBuf,
    simulator: Simulator,
    truth: Truth,
    /// How the gateway is run again.
    durability: Durability,
    gateway: Option<Gateway>,
}

/// An account with a key.
pub struct Customer {
    /// Its session; a gateway that starts anew wants a new one.
    pub session: Session,
    /// The text of its key.
    pub key: String,
    /// All that it was given.
    pub credit: Nanos,
}

/// What a model of the drills costs.
pub(super) fn price_of(model: &str) -> Option<Price> {
    let model = if model.starts_with(LENIENT) { DEAR } else { model };
    let (_, [input, cached, output]) = MODELS.into_iter().find(|(id, _)| *id == model)?;
    Some(Price { input: Nanos(input), cached: Nanos(cached), output: Nanos(output), version: 1 })
}

/// Prepares to run the gateway.
fn gateway(durability: Durability) -> Command {
    let mut command = process::command("gateway");
    if durability == Durability::Power {
        command.env("TOLLGATE_DURABILITY", "power");
    }
    command
}

/// Starts a gateway on the data in `data`, which ends with us.
pub(super) async fn serve(command: Command, data: &Path) -> Gateway {
    let quiet = "warn,gateway::app=info,gateway::ledger=info";
    let change = |command: &mut Command| {
        command.args(["--no-simulator", "--log", quiet]);
        // each round brings new accounts, from one address and on one day
        command.args(["--registrations-per-hour", "0", "--trial-daily-usd", "1000000"]);
    };
    Gateway::serve(command, data, change).await
}

impl Rig {
    /// Starts both on an ordinary disk.
    pub async fn start() -> Self {
        Self::start_for(Durability::Process).await
    }

    /// Starts both on an ordinary disk, the gateway with this durability.
    pub async fn start_for(durability: Durability) -> Self {
        let rig = Self::start_within(|_| gateway(durability), |data, _| data.to_owned()).await;
        Self { durability, ..rig }
    }

    /// Starts both; `command` makes the gateway's from where its data shall be, and `place` says where
    /// we find that place, given its process.
    ///
    /// # Panics
    /// They do not start.
    pub async fn start_within(
        command: impl FnOnce(&Path) -> Command,
        place: impl FnOnce(&Path, u32) -> PathBuf,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let truth = dir.path().join("truth.jsonl");
        let simulator = Simulator::start(&truth).await;
        let data = data(dir.path());
        let gateway = serve(command(&data), &data).await;
        let data = place(&data, gateway.id());
        let truth = Truth::new(&truth);
        let durability = Durability::Process;
        let rig = Self { dir, data, simulator, truth, durability, gateway: Some(gateway) };
        let operator = rig.operator().await;
        let upstream = v1::Upstream {
            name: "simulator".to_owned(),
            url: rig.simulator.url.clone(),
            ..Default::default()
        };
        operator.add_upstream(upstream).await;
        for (id, prices) in MODELS {
            let [input_usd, cached_usd, output_usd] = prices.map(|price| Nanos(price).to_string());
            let mut model = priced_model(id, &[("simulator", "sim-chat")]);
            model.price = Some(v1::Price { input_usd, cached_usd, output_usd, version: 0 });
            operator.add_model(model).await;
        }
        rig
    }

    /// The gateway.
    ///
    /// # Panics
    /// It was killed.
    pub fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("it runs between rounds")
    }

    /// The simulator.
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// Where we find the gateway's data.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Ends the gateway as `kill -9` does.
    ///
    /// # Panics
    /// It was killed before.
    pub async fn kill(&mut self) {
        self.gateway.take().expect("it runs between rounds").kill().await;
    }

    /// Starts the gateway on what it left.
    pub async fn start_again(&mut self) {
        self.gateway = Some(serve(gateway(self.durability), &self.data).await);
    }

    /// Stops the gateway, and returns its data directory with what holds it.
    ///
    /// # Panics
    /// It does not end well.
    pub async fn stop(mut self) -> (TempDir, PathBuf) {
        self.gateway.take().expect("it runs between rounds").stop().await;
        (self.dir, self.data)
    }

    /// The operator.
    ///
    /// # Panics
    /// There is no token.
    pub async fn operator(&self) -> Session {
        operator(self.gateway(), &self.data).await
    }

    /// Registers an account, and makes it a key.
    pub async fn customer(&self, name: &str) -> Customer {
        let session = Session::register(&self.gateway().admin, name, &password_of(name)).await;
        let credit = balance(&session).await;
        let key = session.key().await.secret;
        Customer { session, key, credit }
    }

    /// Gives a customer money, or takes it, until this is what there is.
    pub async fn fund(&self, customer: &mut Customer, wanted: Nanos) {
        let more = wanted + -balance(&customer.session).await;
        if more != Nanos::ZERO {
            self.operator().await.credit(&customer.session.name, &more.to_string()).await;
            customer.credit = customer.credit + more;
        }
    }

    /// Somebody who asks `model` with the customer's key.
    pub fn client(&self, customer: &Customer, model: &'static str) -> Client {
        Client { to: self.gateway().http, key: customer.key.clone(), model }
    }

    /// Waits until nothing is under way, and returns what is if that does not come: the upstream has
    /// ended all that it was asked, and the journal is empty, so that the store has every record.
    pub async fn rest(&self) -> Option<String> {
        let rest = async {
            while !self.truth.is_at_rest() || !journal_is_empty(&self.data) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let is_late = tokio::time::timeout(PATIENCE, rest).await.is_err();
        is_late.then(|| {
            let (upstream, journal) = (self.truth.is_at_rest(), journal_is_empty(&self.data));
            format!("it does not come to rest: upstream {upstream}, journal {journal}")
        })
    }

    /// How many requests have reached the upstream since the last round was judged.
    pub fn asked(&mut self) -> usize {
        self.truth.take().len()
    }

    /// What the customer can spend, as the cap says to which an answer without end is lowered.
    /// Returns also how the answer ended, for the evidence.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn spendable(&self, customer: &Customer) -> (Nanos, Seen) {
        let request =
            self.client(customer, PURSE).request(Shape::ChatStream, "all of it", Some(UNPAYABLE));
        let answer = request.answer().await;
        let cap = answer.header("x-tollgate-translation").strip_prefix("output_cap_lowered=");
        let cap = cap.and_then(|cap| cap.parse().ok()).unwrap_or_default();
        (Nanos(cap), Seen::of(Shape::ChatStream, &answer).expect("a whole answer"))
    }

    /// Waits until nothing is under way, and holds the round's logs of `customer`, the only one who
    /// asked, against each other.
    pub async fn judge(&mut self, customer: &Customer, seen: Vec<Seen>) -> (Verdict, Evidence) {
        let unrest = self.rest().await;
        let evidence = Evidence { seen, truth: self.truth.take(), credit: customer.credit };
        let books = Books::read(&customer.session, &self.operator().await).await;
        let mut verdict = reconcile::reconcile(&evidence, &books);
        verdict.differences.extend(unrest);
        (verdict, evidence)
    }
}

/// The operator of a gateway on the data in `data`.
///
/// # Panics
/// Its token is not there, or not taken.
pub async fn operator(gateway: &Gateway, data: &Path) -> Session {
    let token = std::fs::read_to_string(data.join("operator.token")).unwrap();
    Session::with_token(&gateway.admin, "operator", token.trim()).await
}

pub(super) async fn balance(who: &Session) -> Nanos {
    who.account().await.balance_usd.parse().unwrap()
}

/// Whether the journal holds nothing but zeros behind the heads of its files: what is under way, or
/// not in the store yet, stands there.
fn journal_is_empty(data: &Path) -> bool {
    const HEAD: usize = 16;
    let segments = std::fs::read_dir(data.join("journal")).unwrap();
    // a segment may be removed while we look
    let mut segments = segments.filter_map(|file| std::fs::read(file.ok()?.path()).ok());
    segments.all(|segment| segment.iter().skip(HEAD).all(|&byte| byte == 0))
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}
