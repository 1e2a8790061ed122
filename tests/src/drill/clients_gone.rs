//! Clients that disconnect at every stage of a request, and the resources that remain afterwards.

use domain::money::Nanos;
use proto::v1;
use simulator::RequestEnd;
use tokio::task::JoinSet;

use super::client::{Client, ObservedResponse, Shape};
use super::descriptors::{self, Descriptors};
use super::disconnects::{self, Disconnect};
use super::rig::{Customer, MODEL, Rig, balance};
use super::round::{Drill, Figure, Round};

/// The number of clients and requests.
#[derive(Clone, Copy, Debug)]
pub struct ClientCounts {
    /// Concurrent clients.
    pub clients: usize,
    /// Requests per client.
    pub requests: usize,
}

/// A gateway whose clients disconnect.
pub struct ClientsGone {
    rig: Rig,
    counts: ClientCounts,
    rounds: usize,
    /// The open descriptors of the idle gateway.
    baseline: Option<Descriptors>,
}

/// More than a round can spend; clients that do not read cause long answers.
const PLENTY: Nanos = Nanos(1_000_000_000_000);

impl ClientsGone {
    /// Starts the gateway with a concurrency limit equal to the number of clients.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn prepare(counts: ClientCounts) -> Self {
        let rig = Rig::start().await;
        let limits = v1::Limits { concurrency: Some(counts.clients as u64), ..Default::default() };
        let update = v1::UpdateModelRequest {
            id: MODEL.to_owned(),
            limits: Some(limits),
            ..Default::default()
        };
        rig.operator().await.models().update_model(update).await.unwrap();
        let mut drill = Self { rig, counts, rounds: 0, baseline: None };
        // resources that are allocated once and kept are allocated before the first count
        let customer = drill.rig.customer("first").await;
        let client = drill.rig.client(&customer, MODEL);
        for shape in Shape::QUICK {
            client.send_request(shape, "hello", None).await.expect("an answer");
        }
        _ = drill.rig.reconcile_round(&customer, Vec::new()).await;
        drill.baseline = descriptors::of_gateway(&drill.rig);
        drill
    }

    /// Uses up the concurrency limit and checks that one more request is refused. Returns what is
    /// wrong.
    async fn check_concurrency_limit(&self, client: &Client) -> Option<String> {
        let stalled = || client.request(Shape::ChatStream, "[sim stall=1]", None).send();
        let mut holding = Vec::new();
        for number in 0..self.counts.clients {
            let exchange = stalled().await;
            if exchange.status != 200 {
                let limit = self.counts.clients;
                let refusal = exchange.answer().await;
                let text = refusal.text();
                return Some(format!(
                    "request {number} of {limit} permitted ones was refused: {text}"
                ));
            }
            holding.push(exchange);
        }
        let status = stalled().await.status;
        (status != 429).then(|| format!("a request beyond the concurrency limit got {status}"))
    }

    /// Waits until no client is connected and nothing is in flight. Returns what remains after the
    /// timeout.
    async fn wait_until_deserted(&self) -> impl Iterator<Item = String> {
        descriptors::wait_until_closed(&self.rig, self.baseline)
            .await
            .into_iter()
            .chain(self.rig.wait_until_idle().await)
    }

    /// Has every client connect and disconnect in all ways.
    async fn run_visitors(&self, client: &Client) -> Vec<ObservedResponse> {
        let mut visitors = JoinSet::new();
        for visitor in 0..self.counts.clients {
            let (client, requests) = (client.clone(), self.counts.requests);
            visitors.spawn(async move {
                let mut seen = Vec::new();
                for (number, disconnect) in
                    Disconnect::ALL.iter().cycle().skip(visitor).take(requests).enumerate()
                {
                    let text = format!("client {visitor}, request {number}");
                    seen.extend(disconnects::visit(&client, *disconnect, &text).await);
                }
                seen
            });
        }
        visitors.join_all().await.concat()
    }

    /// Requests more than the balance pays for. Returns an error if the spendable amount is not the
    /// balance.
    async fn check_spendable(
        &self,
        customer: &Customer,
        seen: &mut Vec<ObservedResponse>,
    ) -> Option<String> {
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
        let mut seen = self.run_visitors(&client).await;
        // connections are accepted in order: after this one, all earlier ones are accepted
        seen.extend(client.send_request(Shape::Chat, "still serving?", None).await);
        let mut wrong: Vec<_> = self.wait_until_deserted().await.collect();
        wrong.extend(self.check_concurrency_limit(&client).await);
        wrong.extend(self.wait_until_deserted().await);
        wrong.extend(self.check_spendable(&customer, &mut seen).await);
        let (mut verdict, evidence) = self.rig.reconcile_round(&customer, seen).await;
        verdict.differences.extend(wrong);
        let stopped = evidence.truth.iter().filter(|it| it.end == Some(RequestEnd::Gone)).count();
        let kept = descriptors::of_gateway(&self.rig).map_or(0, |now| now.upstream);
        let figures = vec![
            Figure::Count("upstream answers stopped", stopped),
            Figure::Count("upstream connections kept", kept),
        ];
        Round { verdict, figures }
    }
}
