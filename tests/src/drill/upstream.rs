//! Upstreams that break their protocols at the level of bytes, one kind after the other, and what clients receive meanwhile.

use std::time::Duration;

use domain::money::Nanos;
use proto::v1::{self, RequestStatus};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::choices::Choices;
use super::client::{Client, Shape};
use super::descriptors::{self, Descriptors};
use super::ending::Ending;
use super::peer::{Certificates, Expected, KINDS, Kind, Peer, TEXT};
use super::reconcile::{self, LedgerSnapshot, Reconciliation};
use super::rig::{Customer, MODEL, Rig};
use super::round::{Drill, Figure, Round};
use crate::Session;
use crate::product::priced_model;
use crate::session::requests_of;

/// The deadlines of upstreams that answer nothing; the one for a whole answer is four times as long.
const DEADLINE_MS: u64 = 500;
/// The deadlines of upstreams that answer, which a busy machine must not exceed.
const PATIENT_DEADLINE_MS: u64 = 20_000;
/// More than a round can hold at a time: each byte of an endless answer may be a token.
const PLENTY: Nanos = Nanos(100_000_000_000_000);
/// By how much a further round may enlarge the resident memory of the gateway, in MiB.
const MAX_GROWTH_MIB: usize = 64;

/// The strength of the attack.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamSettings {
    /// The least number of requests of a round.
    pub requests: usize,
    /// The number of concurrent clients.
    pub clients: usize,
    /// The longest permitted duration of a request; `None` if times are not checked.
    pub max_wait: Option<Duration>,
    /// Determines the random choices, which are the same in each round.
    pub seed: u64,
}

/// A gateway in front of hostile upstreams.
pub struct HostileUpstreams {
    rig: Rig,
    settings: UpstreamSettings,
    certificates: Certificates,
    rounds: usize,
    baseline: Option<Descriptors>,
    /// The resident memory after the first round, in MiB.
    resident_at_first: Option<usize>,
}

/// What the clients of one kind of upstream received.
#[derive(Default)]
struct Received {
    sent: usize,
    whole: usize,
    wrong: Vec<String>,
    slowest: Duration,
}

impl HostileUpstreams {
    /// Starts the gateway.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn prepare(settings: UpstreamSettings) -> Self {
        let mut drill = Self {
            rig: Rig::start().await,
            settings,
            certificates: Certificates::create(),
            rounds: 0,
            baseline: None,
            resident_at_first: None,
        };
        // Resources that are allocated once and kept are allocated before the first count.
        let customer = drill.rig.customer("first").await;
        let client = drill.rig.client(&customer, MODEL);
        for shape in Shape::QUICK {
            client.send_request(shape, "hello", None).await.expect("an answer");
        }
        _ = drill.rig.reconcile_round(&customer, Vec::new()).await;
        drop(customer);
        drill.baseline = descriptors::of_gateway(&drill.rig);
        drill
    }

    /// Starts an upstream of this kind, with a model of the same name.
    async fn start(&self, kind: Kind, operator: &Session) -> Peer {
        let peer = Peer::start(kind, &self.certificates, Choices::new(self.settings.seed));
        if self.rounds > 1 {
            let (name, url) = (kind.name.to_owned(), Some(peer.url.clone()));
            let change = v1::UpdateUpstreamRequest { name, url, ..Default::default() };
            operator.upstreams().update_upstream(change).await.unwrap();
            return peer;
        }
        let deadline = match kind.expected {
            Expected::Whole => PATIENT_DEADLINE_MS,
            Expected::Error | Expected::Either | Expected::NotWhole => DEADLINE_MS,
        };
        let deadlines = v1::Deadlines {
            connect_ms: Some(deadline),
            first_byte_ms: Some(deadline),
            idle_ms: Some(deadline),
            total_ms: Some(4 * deadline),
        };
        operator.add_upstream(peer.entry(kind, deadlines)).await;
        operator.add_model(priced_model(kind.name, &[(kind.name, "such")])).await;
        peer
    }

    /// Has all clients send their requests to an upstream of this kind.
    async fn send(&self, kind: Kind, customer: &Customer) -> Received {
        let mut clients = JoinSet::new();
        let count = self.settings.requests.div_ceil(KINDS.len() * self.settings.clients);
        for number in 0..self.settings.clients {
            let client = self.rig.client(customer, kind.name);
            let (choices, numbers) = (Choices::new(self.settings.seed), number * count..);
            clients.spawn(async move {
                let mut received = Received::default();
                for number in numbers.take(count) {
                    received.add(kind, &client, choices, number).await;
                }
                received
            });
        }
        clients.join_all().await.into_iter().fold(Received::default(), |mut all, one| {
            all.sent += one.sent;
            all.whole += one.whole;
            all.wrong.extend(one.wrong);
            all.slowest = all.slowest.max(one.slowest);
            all
        })
    }

    /// Compares the records and the balance with what the clients received. Returns the number of records and the
    /// differences.
    async fn check_records(
        &self,
        customer: &Customer,
        operator: &Session,
        received: &Received,
    ) -> (usize, Vec<String>) {
        let mut differences = Vec::new();
        reconcile::wait_for_records(&customer.session, received.sent).await;
        differences.extend(self.rig.wait_until_idle().await);
        let books = LedgerSnapshot::read(&customer.session, operator).await;
        let recorded = requests_of(books.records.values());
        if recorded != received.sent {
            differences.push(format!("{} requests have {recorded} records", received.sent));
        }
        let is_complete = |record: &&v1::RequestRecord| {
            matches!(record.status(), RequestStatus::Completed | RequestStatus::Incomplete)
        };
        let complete = requests_of(books.records.values().filter(is_complete));
        if complete != received.whole {
            let whole = received.whole;
            differences.push(format!("{whole} answers are whole, {complete} are recorded so"));
        }
        let charges: Nanos = books.records.values().filter_map(reconcile::cost).sum();
        if books.balance != customer.credit + -charges {
            let (credit, balance) = (customer.credit, books.balance);
            differences.push(format!("{credit} less {charges} is not the balance {balance}"));
        }
        let (spendable, _) = self.rig.spendable(customer).await;
        if spendable != books.balance {
            differences.push(format!("of {}, {spendable} can be spent", books.balance));
        }
        differences.extend(books.proof);
        (recorded, differences)
    }

    fn resident_mib(&self) -> usize {
        descriptors::resident_mib(self.rig.gateway().id()).unwrap_or_default()
    }

    /// Returns a difference if the memory has grown since the end of the first round.
    fn check_memory(&mut self, resident: usize) -> Option<String> {
        let at_first = *self.resident_at_first.get_or_insert(resident);
        (resident > at_first + MAX_GROWTH_MIB)
            .then(|| format!("{resident} MiB are resident, {at_first} MiB after the first round"))
    }
}

impl Drill for HostileUpstreams {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let mut customer = self.rig.customer(&format!("account-{}", self.rounds)).await;
        self.rig.fund(&mut customer, PLENTY).await;
        let operator = self.rig.operator().await;
        let mut figures = vec![Figure::Memory("resident before", self.resident_mib())];
        let (mut peers, mut all) = (Vec::new(), Received::default());
        for kind in KINDS {
            peers.push(self.start(kind, &operator).await);
            let Received { sent, whole, mut wrong, slowest } = self.send(kind, &customer).await;
            let resident = self.resident_mib();
            figures.push(Figure::Upstream { kind: kind.name, slowest, resident });
            if self.settings.max_wait.is_some_and(|max_wait| slowest > max_wait) {
                wrong.push(format!("{}: a request took {slowest:?}", kind.name));
            }
            all.sent += sent;
            all.whole += whole;
            all.wrong.extend(wrong);
        }
        let upstream = peers.iter().map(Peer::received).sum();
        drop(peers);
        let (recorded, mut differences) = self.check_records(&customer, &operator, &all).await;
        // Their connections to the admin plane are descriptors of the gateway, too.
        drop((customer, operator));
        differences.extend(descriptors::wait_until_closed(&self.rig, self.baseline).await);
        let resident = self.resident_mib();
        figures.push(Figure::Memory("resident after", resident));
        differences.extend(self.check_memory(resident));
        differences.extend(all.wrong);
        let verdict = Reconciliation {
            upstream,
            recorded,
            seen: all.whole,
            differences,
            ..Reconciliation::default()
        };
        Round { verdict, figures }
    }
}

// === impl Received ===

impl Received {
    /// Sends request `number` of a kind, and adds what its client receives.
    async fn add(&mut self, kind: Kind, client: &Client, choices: Choices, number: usize) {
        let shape = choices.one_of(&Shape::COUNTED, (kind.name, number));
        let request = client.request(shape, &format!("request {number}"), Some(16));
        let begun = Instant::now();
        let answer = async { request.try_send().await?.try_answer().await };
        let answer = answer.await;
        self.sent += 1;
        self.slowest = self.slowest.max(begun.elapsed());
        let ending = match &answer {
            Ok(answer) => Ending::of(shape, answer),
            Err(error) => Ending::Dishonest(format!("{shape:?}: {error:#}")),
        };
        let is_right = match (&ending, kind.expected) {
            (Ending::Whole(text), Expected::Whole | Expected::Either) => text == TEXT,
            (Ending::Error, Expected::Error | Expected::Either | Expected::NotWhole)
            | (Ending::Incomplete, Expected::NotWhole) => true,
            _ => false,
        };
        self.whole += usize::from(matches!(ending, Ending::Whole(_) | Ending::Incomplete));
        if !is_right {
            let ending = format!("{ending:?}");
            self.wrong.push(format!("{}: {shape:?} received {ending:.600}", kind.name));
        }
    }
}
