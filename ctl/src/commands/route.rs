//! `ctl route …`, and the printed form of a route.

use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::{ExplainRouteRequest, RouteStep};
use serde::Serialize;

use super::{enum_name, required};
use crate::Shell;
use crate::cli::route::{Explain, RouteCommand};
use crate::error::Failure;
use crate::output::Record;

/// A deployment in the order in which deployments are tried, as printed.
#[derive(Serialize)]
struct StepRecord {
    /// The place in the order, from 1.
    order: usize,
    upstream: String,
    upstream_model: String,
    priority: u32,
    weight: u32,
    first_percent: Option<f64>,
    in_flight: u32,
    latency_ms: Option<f64>,
    reason: String,
}

/// Runs `ctl route …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: RouteCommand) -> Result<(), Failure> {
    match command {
        RouteCommand::Explain(input) => explain(shell, input).await,
    }
}

async fn explain(shell: &mut Shell<'_>, input: Explain) -> Result<(), Failure> {
    let mut client = ModelServiceClient::new(shell.connect().await?);
    let Explain { model, cache_key: prompt_cache_key } = input;
    let request = ExplainRouteRequest { model, prompt_cache_key };
    let answer = client.explain_route(request).await?.into_inner();
    let routing = enum_name(answer.routing().as_str_name(), "ROUTING_");
    let hedging =
        answer.hedge_after_ms.map(|millis| format!(", also the next one after {millis} ms"));
    let (routing, hedging) =
        (routing.as_deref().unwrap_or("weighted"), hedging.unwrap_or_default());
    shell.output.note(&format!("{}: {routing}{hedging}", answer.model));
    let steps = (1..).zip(answer.steps).map(|(order, step)| StepRecord::new(order, step));
    shell.output.many(&steps.collect::<Result<Vec<_>, _>>()?)
}

// === impl StepRecord ===

impl StepRecord {
    fn new(order: usize, step: RouteStep) -> Result<Self, Failure> {
        let deployment = required(step.deployment, "deployment")?;
        let rounded = |number: f64| (number * 10.0).round() / 10.0;
        Ok(Self {
            order,
            upstream: deployment.upstream,
            upstream_model: deployment.upstream_model,
            priority: deployment.priority,
            weight: deployment.weight,
            first_percent: step.first_percent.map(rounded),
            in_flight: step.in_flight,
            latency_ms: step.latency_ms.map(rounded),
            reason: step.reason,
        })
    }
}

impl Record for StepRecord {
    const FIELDS: &'static [&'static str] = &[
        "order",
        "upstream",
        "upstream_model",
        "priority",
        "weight",
        "first_percent",
        "in_flight",
        "latency_ms",
        "reason",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "order",
        "upstream",
        "upstream_model",
        "first_percent",
        "in_flight",
        "latency_ms",
        "reason",
    ];
}
