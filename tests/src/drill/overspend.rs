//! Concurrent requests that cost more than the balance, single requests that do, and requests with
//! a disguised cap.

use domain::money::Nanos;
use tokio::task::JoinSet;

use super::client::{ObservedResponse, Shape};
use super::reconcile::{self, Reconciliation};
use super::rig::{Customer, EXPENSIVE, MODEL, Rig, balance};
use super::round::{Drill, Figure, Round};
use super::spellings::Spellings;

/// The initial balance: about ten answers of 100 tokens at two dollars per million tokens.
const BALANCE: Nanos = Nanos(2_200_000);
/// Pays for a short prompt and one output token, so a request with this balance is served.
const MIN_SERVABLE: Nanos = Nanos(100_000);
/// The requested answer.
const SIZE: &str = "[sim words=100]";
/// The caps in the requests.
const CAPS: [Option<u64>; 4] = [None, Some(120), Some(100_000), Some(25_000_000)];

const DOLLAR: Nanos = Nanos(1_000_000_000);
/// What may remain of a dollar: an answer that is shortened leaves something for concurrent
/// requests.
const MAX_LEFT_OF_A_DOLLAR: Nanos = Nanos(200_000_000);
/// Fifty dollars at the price of [`EXPENSIVE`], in tokens.
const TOKENS_FOR_FIFTY_DOLLARS: u64 = 250_000;
/// An answer that costs more than a dollar.
const LONG: &str = "[sim words=20000]";

/// A gateway whose accounts request more than they can pay for.
pub struct Overspend {
    rig: Rig,
    /// Concurrent requests.
    requests: usize,
    spellings: Spellings,
    /// The number of rounds that covers every spelling of a cap.
    spread: usize,
    rounds: usize,
}

impl Overspend {
    /// Starts the gateway. Each round sends `requests` concurrent requests and every `spread`th
    /// spelling of a cap, others than the round before.
    pub async fn prepare(requests: usize, spread: usize) -> Self {
        let rig = Rig::start().await;
        let spellings = Spellings::prepare(&rig).await;
        Self { rig, requests, spellings, spread, rounds: 0 }
    }

    /// Sends all requests at once and returns the complete responses.
    async fn send_all_at_once(&self, customer: &Customer) -> Vec<ObservedResponse> {
        let client = self.rig.client(customer, MODEL);
        let mut asking = JoinSet::new();
        for number in 0..self.requests {
            let (client, cap) = (client.clone(), CAPS[number % CAPS.len()]);
            let shape = Shape::QUICK[number % Shape::QUICK.len()];
            let text = format!("request {number} {SIZE}");
            asking.spawn(async move { client.send_request(shape, &text, cap).await });
        }
        asking.join_all().await.into_iter().flatten().collect()
    }

    /// Spends the rest of the balance, one request after another.
    async fn spend_remainder(&self, customer: &Customer, seen: &mut Vec<ObservedResponse>) {
        let client = self.rig.client(customer, MODEL);
        for shape in Shape::COUNTED.iter().cycle() {
            let Some(end) = client.send_request(*shape, SIZE, None).await else { return };
            let status = end.status;
            seen.push(end);
            if status != 200 {
                return;
            }
        }
    }

    /// Has a new account spend its balance in concurrent requests, then the rest.
    async fn concurrent_requests(&mut self) -> Round {
        let mut customer = self.rig.customer(&format!("concurrent-{}", self.rounds)).await;
        self.rig.fund(&mut customer, BALANCE).await;
        let mut seen = self.send_all_at_once(&customer).await;
        let served = seen.iter().filter(|end| end.status == 200).count();
        let mut wrong: Vec<_> = self.rig.wait_until_idle().await.into_iter().collect();
        if seen.len() < self.requests {
            wrong.push(format!("{} of {} requests got an answer", seen.len(), self.requests));
        }
        if served == 0 {
            wrong.push("nothing was served".to_owned());
        }
        self.spend_remainder(&customer, &mut seen).await;
        let left = balance(&customer.session).await;
        if left > MIN_SERVABLE {
            wrong.push(format!("{left} of {BALANCE} remain"));
        }
        reconcile::wait_for_records(&customer.session, seen.len()).await;
        let (mut verdict, _) = self.rig.reconcile_round(&customer, seen).await;
        verdict.differences.extend(wrong);
        Round { verdict, figures: vec![Figure::Count("served at once", served)] }
    }

    /// Has a new account with one dollar request an answer worth fifty, in each shape.
    async fn oversized_requests(&mut self) -> Reconciliation {
        let mut customer = self.rig.customer(&format!("oversized-{}", self.rounds)).await;
        let (mut seen, mut wrong) = (Vec::new(), Vec::new());
        for shape in Shape::COUNTED {
            self.rig.fund(&mut customer, DOLLAR).await;
            let client = self.rig.client(&customer, EXPENSIVE);
            let end = client.send_request(shape, LONG, Some(TOKENS_FOR_FIFTY_DOLLARS)).await;
            wrong.extend(self.rig.wait_until_idle().await);
            let left = balance(&customer.session).await;
            let is_served = end.as_ref().is_some_and(|end| end.status == 200 && end.cut);
            if !is_served || left > MAX_LEFT_OF_A_DOLLAR {
                wrong.push(format!("{left} of a dollar remain after {shape:?}: {end:?}"));
            }
            seen.extend(end);
        }
        let (mut verdict, _) = self.rig.reconcile_round(&customer, seen).await;
        verdict.differences.extend(wrong);
        verdict
    }
}

impl Drill for Overspend {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let mut round = self.concurrent_requests().await;
        round.verdict += self.oversized_requests().await;
        let name = format!("spelled-{}", self.rounds);
        let (verdict, served) =
            self.spellings.play(&self.rig, &name, (self.rounds, self.spread)).await;
        round.verdict += verdict;
        round.figures.push(Figure::Count("served by lenient upstreams", served));
        round
    }
}
