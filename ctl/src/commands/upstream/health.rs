//! `ctl upstream health`, and the printed form of an upstream's health.

use proto::client::Connection;
use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::{BreakerState, ListUpstreamHealthRequest, UpstreamHealth};
use serde::Serialize;
use tonic::Status;

use super::super::{enum_name, non_empty, percentiles, rfc3339};
use super::credentials::{self, CredentialRecord};
use crate::Shell;
use crate::error::Failure;
use crate::output::Record;

/// The health of an upstream, as printed.
#[derive(Serialize)]
struct HealthRecord {
    name: String,
    breaker: Option<String>,
    retry_at: Option<String>,
    in_flight: u64,
    /// In the last five minutes, as all following fields.
    requests: u64,
    failures: u64,
    /// Answers with implausible token usage.
    implausible_usage: u64,
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    last_error: Option<String>,
    last_error_at: Option<String>,
    /// Empty if the upstream requires no credential.
    credentials: Vec<CredentialRecord>,
    /// `passing`, `failing`, or `None` without a result.
    health_check: Option<String>,
}

/// Runs `ctl upstream health`.
pub(super) async fn run(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let upstreams = fetch(shell.connect().await?).await?;
    let records: Vec<_> = upstreams.into_iter().map(HealthRecord::from).collect();
    shell.output.many(&records)
}

/// Fetches the health of all upstreams.
pub(super) async fn fetch(connection: Connection) -> Result<Vec<UpstreamHealth>, Status> {
    let mut client = TrafficServiceClient::new(connection);
    Ok(client.list_upstream_health(ListUpstreamHealthRequest {}).await?.into_inner().upstreams)
}

/// Returns the state of an upstream's circuit breaker: `closed`, `open` or `half_open`.
pub(super) fn breaker(health: &UpstreamHealth) -> Option<String> {
    let state: BreakerState = health.breaker();
    enum_name(state.as_str_name(), "BREAKER_STATE_")
}

// === impl HealthRecord ===

impl From<UpstreamHealth> for HealthRecord {
    fn from(health: UpstreamHealth) -> Self {
        let [p50_ms, p90_ms, p99_ms] = percentiles(health.latency);
        let check = enum_name(health.health_check().as_str_name(), "HEALTH_CHECK_STATE_");
        Self {
            breaker: breaker(&health),
            name: health.name,
            retry_at: rfc3339(health.retry_at),
            in_flight: health.in_flight,
            requests: health.requests,
            failures: health.failures,
            implausible_usage: health.implausible_usage,
            p50_ms,
            p90_ms,
            p99_ms,
            last_error: non_empty(health.last_error),
            last_error_at: rfc3339(health.last_error_at),
            credentials: credentials::health_records(health.credentials),
            health_check: check,
        }
    }
}

impl Record for HealthRecord {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "breaker",
        "retry_at",
        "in_flight",
        "requests",
        "failures",
        "p50_ms",
        "p90_ms",
        "p99_ms",
        "last_error",
        "last_error_at",
        "implausible_usage",
        "credentials",
        "health_check",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "breaker",
        "in_flight",
        "requests",
        "failures",
        "p50_ms",
        "p99_ms",
        "last_error",
        "retry_at",
        "credentials",
        "health_check",
    ];

    fn text(&self, field: &str) -> Option<String> {
        let count = |is: fn(&CredentialRecord) -> bool| {
            self.credentials.iter().filter(|credential| is(credential)).count()
        };
        (field == "credentials").then(|| match self.credentials.len() {
            several @ 2.. => {
                let paused = count(CredentialRecord::is_paused);
                let missing = count(CredentialRecord::is_missing);
                let paused = (paused > 0).then(|| format!(", {paused} paused"));
                let missing = (missing > 0).then(|| format!(", {missing} missing"));
                format!("{several}{}{}", paused.unwrap_or_default(), missing.unwrap_or_default())
            }
            few => few.to_string(),
        })
    }
}
