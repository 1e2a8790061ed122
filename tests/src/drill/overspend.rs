//! More requests at once than the balance pays for, one that asks for far more than it, and those that
//! ask for more than they seem to.

use domain::money::Nanos;
use tokio::task::JoinSet;

use super::client::{Seen, Shape};
use super::reconcile::{self, Verdict};
use super::rig::{Customer, DEAR, MODEL, Rig, balance};
use super::round::{Drill, Figure, Round};
use super::spellings::Spellings;

/// What the balance is at first: some ten answers of a hundred tokens, which cost two dollars a million.
const BALANCE: Nanos = Nanos(2_200_000);
/// With so much, which pays for a short question and a word, somebody is still served.
const ENOUGH: Nanos = Nanos(100_000);
/// The answers asked for.
const SIZE: &str = "[sim words=100]";
/// The caps that requests name.
const CAPS: [Option<u64>; 4] = [None, Some(120), Some(100_000), Some(25_000_000)];

const DOLLAR: Nanos = Nanos(1_000_000_000);
/// What may be left of it: a plain answer that is shortened anyway leaves something for requests beside it.
const SPARED: Nanos = Nanos(200_000_000);
/// What fifty dollars pay for at [`DEAR`]'s price, in tokens.
const WORTH_FIFTY: u64 = 250_000;
/// An answer that is longer than a dollar pays for.
const LONG: &str = "[sim words=20000]";

/// A gateway that is asked for more than there is.
pub struct Overspend {
    rig: Rig,
    /// Requests at once.
    requests: usize,
    spellings: Spellings,
    /// How many rounds it takes to send every spelling of a cap.
    spread: usize,
    rounds: usize,
}

impl Overspend {
    /// Starts the gateway. A round has so many requests at once, and one in `spread` of all spellings of
    /// a cap, others than the round before.
    pub async fn prepare(requests: usize, spread: usize) -> Self {
        let rig = Rig::start().await;
        let spellings = Spellings::prepare(&rig).await;
        Self { rig, requests, spellings, spread, rounds: 0 }
    }

    /// Sends all requests at once, and returns the ends that came.
    async fn storm(&self, customer: &Customer) -> Vec<Seen> {
        let client = self.rig.client(customer, MODEL);
        let mut asking = JoinSet::new();
        for number in 0..self.requests {
            let (client, cap) = (client.clone(), CAPS[number % CAPS.len()]);
            let shape = Shape::QUICK[number % Shape::QUICK.len()];
            let text = format!("request {number} {SIZE}");
            asking.spawn(async move { client.ask(shape, &text, cap).await });
        }
        asking.join_all().await.into_iter().flatten().collect()
    }

    /// Spends what is left, one request after the other.
    async fn spend_the_rest(&self, customer: &Customer, seen: &mut Vec<Seen>) {
        let client = self.rig.client(customer, MODEL);
        for shape in Shape::COUNTED.iter().cycle() {
            let Some(end) = client.ask(*shape, SIZE, None).await else { return };
            let status = end.status;
            seen.push(end);
            if status != 200 {
                return;
            }
        }
    }

    /// Has a new account spend a balance in many requests at once, and then what is left of it.
    async fn many(&mut self) -> Round {
        let mut customer = self.rig.customer(&format!("many-{}", self.rounds)).await;
        self.rig.fund(&mut customer, BALANCE).await;
        let mut seen = self.storm(&customer).await;
        let served = seen.iter().filter(|end| end.status == 200).count();
        let mut wrong: Vec<_> = self.rig.rest().await.into_iter().collect();
        if seen.len() < self.requests {
            wrong.push(format!("{} of {} requests got an answer", seen.len(), self.requests));
        }
        if served == 0 {
            wrong.push("nothing was served".to_owned());
        }
        self.spend_the_rest(&customer, &mut seen).await;
        let left = balance(&customer.session).await;
        if left > ENOUGH {
            wrong.push(format!("{left} of {BALANCE} cannot be spent"));
        }
        reconcile::wait_for_records(&customer.session, seen.len()).await;
        let (mut verdict, _) = self.rig.judge(&customer, seen).await;
        verdict.differences.extend(wrong);
        Round { verdict, figures: vec![Figure::Count("served at once", served)] }
    }

    /// Has a new account ask for an answer worth fifty dollars with one, in each shape.
    async fn much(&mut self) -> Verdict {
        let mut customer = self.rig.customer(&format!("much-{}", self.rounds)).await;
        let (mut seen, mut wrong) = (Vec::new(), Vec::new());
        for shape in Shape::COUNTED {
            self.rig.fund(&mut customer, DOLLAR).await;
            let client = self.rig.client(&customer, DEAR);
            let end = client.ask(shape, LONG, Some(WORTH_FIFTY)).await;
            wrong.extend(self.rig.rest().await);
            let left = balance(&customer.session).await;
            let is_served = end.as_ref().is_some_and(|end| end.status == 200 && end.cut);
            if !is_served || left > SPARED {
                wrong.push(format!("{left} of a dollar is left after {shape:?}: {end:?}"));
            }
            seen.extend(end);
        }
        let (mut verdict, _) = self.rig.judge(&customer, seen).await;
        verdict.differences.extend(wrong);
        verdict
    }
}

impl Drill for Overspend {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let mut round = self.many().await;
        round.verdict += self.much().await;
        let name = format!("spelled-{}", self.rounds);
        let (verdict, served) =
            self.spellings.play(&self.rig, &name, (self.rounds, self.spread)).await;
        round.verdict += verdict;
        round.figures.push(Figure::Count("served by lenient upstreams", served));
        round
    }
}
