//! Clients that leave at every moment, and what they leave behind.

use std::time::Duration;

use domain::money::Nanos;
use proto::v1;
use simulator::End;
use tokio::task::JoinSet;

use super::client::{Client, Seen, Shape};
use super::descriptors::{self, Descriptors};
use super::leaving::{self, Manner};
use super::rig::{Customer, MODEL, Rig, balance};
use super::round::{Drill, Figure, Round};
use crate::PATIENCE;

/// How many clients come, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Clients at once.
    pub clients: usize,
    /// Requests of each.
    pub requests: usize,
}

/// A gateway whose clients leave.
pub struct ClientsGone {
    rig: Rig,
    crowd: Crowd,
    rounds: usize,
    /// What it has open when nobody is there.
    baseline: Option<Descriptors>,
}

/// More than a round can use up: the clients that do not read let long answers come.
const PLENTY: Nanos = Nanos(1_000_000_000_000);

impl ClientsGone {
    /// Starts the gateway, with as many places for requests as there are clients.
    ///
    /// # Panics
    /// It does not answer.
    pub async fn prepare(crowd: Crowd) -> Self {
        let rig = Rig::start().await;
        let limits = v1::Limits { concurrency: Some(crowd.clients as u64), ..Default::default() };
        let update = v1::UpdateModelRequest {
            id: MODEL.to_owned(),
            limits: Some(limits),
            ..Default::default()
        };
        rig.operator().await.models().update_model(update).await.unwrap();
        let mut drill = Self { rig, crowd, rounds: 0, baseline: None };
        // what is made once and kept is made before the first count
        let customer = drill.rig.customer("first").await;
        let client = drill.rig.client(&customer, MODEL);
        for shape in Shape::QUICK {
            client.ask(shape, "hello", None).await.expect("an answer");
        }
        _ = drill.rig.judge(&customer, Vec::new()).await;
        drill.baseline = drill.descriptors();
        drill
    }

    fn descriptors(&self) -> Option<Descriptors> {
        let port = self.rig.simulator().url.rsplit_once(':')?.1.strip_suffix("/v1")?;
        let gateway = self.rig.gateway();
        descriptors::of(gateway.id(), gateway.http.port(), port.parse().ok()?)
    }

    /// Fills every place, and finds that there is not one more. Returns what is wrong with that.
    async fn fill_places(&self, client: &Client) -> Option<String> {
        let stalled = || client.request(Shape::ChatStream, "[sim stall=1]", None).send();
        let mut holding = Vec::new();
        for place in 0..self.crowd.clients {
            let exchange = stalled().await;
            if exchange.status != 200 {
                let places = self.crowd.clients;
                let refusal = exchange.answer().await;
                let said = refusal.text();
                return Some(format!("{place} of {places} places are free: {said}"));
            }
            holding.push(exchange);
        }
        let status = stalled().await.status;
        (status != 429).then(|| format!("there is a place too many: {status}"))
    }

    /// Waits until nobody is there and nothing is under way, and returns what is wrong if that does not
    /// come.
    async fn deserted(&self) -> impl Iterator<Item = String> {
        self.closed().await.into_iter().chain(self.rig.rest().await)
    }

    /// Waits until no more is open than at first, and returns what is if that does not come.
    async fn closed(&self) -> Option<String> {
        let baseline = self.baseline?;
        let is_closed = || {
            self.descriptors().is_some_and(|now| now.clients == 0 && now.other <= baseline.other)
        };
        let closing = async {
            while !is_closed() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let is_late = tokio::time::timeout(PATIENCE, closing).await.is_err();
        is_late.then(|| format!("{:?} are open, {baseline:?} at first", self.descriptors()))
    }

    /// Has every client come and leave, in all manners.
    async fn visits(&self, client: &Client) -> Vec<Seen> {
        let mut visitors = JoinSet::new();
        for visitor in 0..self.crowd.clients {
            let (client, requests) = (client.clone(), self.crowd.requests);
            visitors.spawn(async move {
                let mut seen = Vec::new();
                for (number, manner) in
                    Manner::ALL.iter().cycle().skip(visitor).take(requests).enumerate()
                {
                    let text = format!("visitor {visitor}, request {number}");
                    seen.extend(leaving::visit(&client, *manner, &text).await);
                }
                seen
            });
        }
        visitors.join_all().await.concat()
    }

    /// Asks for more than the customer has, and returns what is wrong if that is not all it has.
    async fn money(&self, customer: &Customer, seen: &mut Vec<Seen>) -> Option<String> {
        let has = balance(&customer.session).await;
        let (spendable, answer) = self.rig.spendable(customer).await;
        seen.push(answer);
        (spendable != has).then(|| format!("of {has}, {spendable} can be spent"))
    }
}

impl Drill for ClientsGone {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let mut customer = self.rig.customer(&format!("account-{}", self.rounds)).await;
        self.rig.fund(&mut customer, PLENTY).await;
        let client = self.rig.client(&customer, MODEL);
        let mut seen = self.visits(&client).await;
        // connections are taken in order: with this one, all that came before were taken
        seen.extend(client.ask(Shape::Chat, "anybody there?", None).await);
        let mut wrong: Vec<_> = self.deserted().await.collect();
        wrong.extend(self.fill_places(&client).await);
        wrong.extend(self.deserted().await);
        wrong.extend(self.money(&customer, &mut seen).await);
        let (mut verdict, evidence) = self.rig.judge(&customer, seen).await;
        verdict.differences.extend(wrong);
        let stopped = evidence.truth.iter().filter(|it| it.end == Some(End::Gone)).count();
        let kept = self.descriptors().map_or(0, |now| now.upstream);
        let figures = vec![
            Figure::Count("upstream answers stopped", stopped),
            Figure::Count("upstream connections kept", kept),
        ];
        Round { verdict, figures }
    }
}
