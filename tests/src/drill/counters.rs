//! The counters of a gateway's metrics, and the sums of the records in its store that they must equal.

use std::net::SocketAddr;

use domain::money::Nanos;
use proto::v1;

use super::load::Load;
use super::rig::{MODEL, Rig};
use crate::Session;
use crate::http::Request;

/// Sums over requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of requests.
    pub requests: u64,
    /// Input and cached input, output and reasoning tokens.
    pub tokens: [u64; 4],
    /// The amount charged.
    pub cost: Nanos,
}

impl Counters {
    /// Reads the counters that a gateway exports.
    ///
    /// # Panics
    /// If it does not.
    pub async fn scraped(metrics: SocketAddr) -> Self {
        let answer = Request::get(metrics, "/metrics").answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = std::str::from_utf8(&answer.body).unwrap();
        let count = |name: &str| sum(text, name, |value| value.parse::<u64>().unwrap());
        Self {
            requests: count("tollgate_requests_total{"),
            tokens: ["input", "cached", "output", "reasoning"]
                .map(|kind| count(&format!("tollgate_{kind}_tokens_total{{"))),
            cost: sum(text, "tollgate_cost_usd_total{", |value| value.parse::<Nanos>().unwrap()),
        }
    }

    /// Reads the sums of all records in the store.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn stored(operator: &Session) -> Self {
        let request = v1::SummarizeUsageRequest::default();
        let summary = operator.usage().summarize_usage(request).await.unwrap().into_inner();
        let totals = summary.totals.unwrap();
        let tokens = totals.tokens.unwrap_or_default();
        let tokens = [tokens.input, tokens.cached, tokens.output, tokens.reasoning];
        Self {
            requests: totals.requests,
            tokens: tokens.map(Option::unwrap_or_default),
            cost: totals.cost_usd.parse().unwrap(),
        }
    }

    /// Returns what was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let mut tokens = self.tokens;
        for (tokens, earlier) in tokens.iter_mut().zip(earlier.tokens) {
            *tokens -= earlier;
        }
        Self { requests: self.requests - earlier.requests, tokens, cost: self.cost + -earlier.cost }
    }
}

/// Kills the gateway under load, restarts it and loads it again. Returns the counters of the new process, and what its
/// store got after the replay.
pub async fn across_a_crash(rig: &mut Rig, clients: usize, ends: usize) -> (Counters, Counters) {
    let customer = rig.customer("counted").await;
    let mut load = Load::start(&rig.client(&customer, MODEL), clients);
    load.wait_until(|seen| seen.len() >= ends).await;
    rig.kill().await;
    load.join().await;

    rig.start_again().await;
    let operator = rig.operator().await;
    let replayed = Counters::stored(&operator).await;
    assert!(replayed.requests >= ends as u64, "{replayed:?}");
    let mut load = Load::start(&rig.client(&customer, MODEL), clients);
    load.wait_until(|seen| seen.len() >= ends).await;
    load.stop().await;
    assert_eq!(rig.wait_until_idle().await, None);
    let scraped = Counters::scraped(rig.gateway().metrics()).await;
    (scraped, Counters::stored(&operator).await.since(replayed))
}

/// Returns the sum of the samples whose lines begin with `name`.
fn sum<T: std::iter::Sum>(text: &str, name: &str, parse: fn(&str) -> T) -> T {
    let samples = text.lines().filter(|line| line.starts_with(name));
    samples.map(|line| parse(line.rsplit(' ').next().unwrap_or_default())).sum()
}
