//! Canned traffic, limits, upstream health and diagnostics.

use std::pin::Pin;

use proto::v1::diagnostics_service_server::DiagnosticsService;
use proto::v1::traffic_service_server::TrafficService;
use proto::v1::*;
use tokio_stream::Stream;
use tonic::{Request, Status};

use super::{Answer, FakeGateway, answer, at};

#[tonic::async_trait]
impl TrafficService for FakeGateway {
    type WatchTrafficStream =
        Pin<Box<dyn Stream<Item = Result<WatchTrafficResponse, Status>> + Send>>;

    /// Sends two samples, then ends.
    async fn watch_traffic(
        &self,
        request: Request<WatchTrafficRequest>,
    ) -> Answer<Self::WatchTrafficStream> {
        self.record("WatchTraffic", request)?;
        let minute =
            |requests| MinuteTraffic { requests, errors: requests / 4, tokens: requests * 50 };
        let sample = |in_flight| {
            Ok(WatchTrafficResponse {
                at: at(0, 0),
                in_flight,
                requests_per_second: 1.25,
                tokens_per_second: 340.0,
                minutes: [0, 1, 2, 4, 8].map(minute).to_vec(),
                ttft: Some(Percentiles { p50_ms: 38.4, p90_ms: 120.0, p99_ms: 412.6 }),
                errors: vec![ErrorCount {
                    code: "upstream\u{1b}[2J_error".to_owned(),
                    count: 3,
                    last_at: at(-30, 0),
                }],
                ledger: None,
            })
        };
        answer(Box::pin(tokio_stream::iter([sample(3), sample(4)])))
    }

    async fn list_limit_use(
        &self,
        request: Request<ListLimitUseRequest>,
    ) -> Answer<ListLimitUseResponse> {
        self.record("ListLimitUse", request)?;
        let requests = LimitUse {
            scope: LimitScope::Plan.into(),
            subject: "free".to_owned(),
            kind: LimitKind::Requests.into(),
            limit: 60,
            used: 15,
            observed: false,
            resets_at: at(30, 0),
        };
        let spending = LimitUse {
            scope: LimitScope::Key.into(),
            subject: "9f2c41d0".to_owned(),
            kind: LimitKind::Spending.into(),
            limit: 5_000_000_000,
            used: 500_000_001,
            observed: true,
            resets_at: None,
        };
        answer(ListLimitUseResponse { limits: vec![requests, spending] })
    }

    async fn list_upstream_health(
        &self,
        request: Request<ListUpstreamHealthRequest>,
    ) -> Answer<ListUpstreamHealthResponse> {
        self.record("ListUpstreamHealth", request)?;
        let health = UpstreamHealth {
            name: "example".to_owned(),
            breaker: BreakerState::Open.into(),
            retry_at: at(20, 0),
            in_flight: 2,
            requests: 40,
            failures: 9,
            latency: Some(Percentiles { p50_ms: 21.0, p90_ms: 80.5, p99_ms: 300.0 }),
            implausible_usage: 0,
            last_error: "connection refused".to_owned(),
            last_error_at: at(-5, 0),
            credentials: vec![CredentialHealth {
                number: 1,
                source: Some(Credential {
                    source: Some(credential::Source::Env("EXAMPLE_KEY".to_owned())),
                }),
                paused_until: at(30, 0),
                requests: 38,
                refusals: 2,
                last_refusal: 429,
                problem: String::new(),
            }],
            health_check: HealthCheckState::Failing.into(),
        };
        answer(ListUpstreamHealthResponse { upstreams: vec![health] })
    }
}

#[tonic::async_trait]
impl DiagnosticsService for FakeGateway {
    type DiagnoseStream = Pin<Box<dyn Stream<Item = Result<DiagnoseResponse, Status>> + Send>>;

    /// Reports a healthy disk; with injected problems, also an unreachable upstream.
    async fn diagnose(&self, request: Request<DiagnoseRequest>) -> Answer<Self::DiagnoseStream> {
        self.record("Diagnose", request)?;
        let disk = DiagnoseResponse {
            area: DiagnosticArea::Disk.into(),
            subject: "/var/lib/tollgate".to_owned(),
            severity: Severity::Ok.into(),
            finding: "12 GiB are free".to_owned(),
            remedy: String::new(),
            elapsed_ms: 0.25,
            gateway_time_ms: self.gateway_time_ms(),
        };
        let mut diagnoses = vec![Ok(disk.clone())];
        if self.state.lock().unwrap().has_problems {
            diagnoses.push(Ok(DiagnoseResponse {
                area: DiagnosticArea::Upstream.into(),
                subject: "example".to_owned(),
                severity: Severity::Problem.into(),
                finding: "connection refused".to_owned(),
                remedy: "start the server, or correct its URL with `ctl upstream update`"
                    .to_owned(),
                ..disk
            }));
        }
        answer(Box::pin(tokio_stream::iter(diagnoses)))
    }
}
