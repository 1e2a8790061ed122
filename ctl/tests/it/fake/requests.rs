//! A canned request log.

use std::pin::Pin;

use proto::v1::usage_service_server::UsageService;
use proto::v1::*;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Status};

use super::{Answer, FakeGateway, TailBehaviour, answer, at};

/// Returns three records: a completed one, an interrupted one without details, and a rejected one.
pub(crate) fn records() -> Vec<RequestRecord> {
    let completed = RequestRecord {
        id: "019a9f0e-0000-7000-8000-00000000000a".to_owned(),
        account: "alice".to_owned(),
        key: "9f2c41d0".to_owned(),
        endpoint: "chat.completions".to_owned(),
        model: Some("sim-fast".to_owned()),
        deployment: Some("sim/fast:v1".to_owned()),
        stream: true,
        status: RequestStatus::Completed.into(),
        http_status: Some(200),
        error_code: None,
        tokens: Some(TokenCounts {
            input: Some(120),
            cached: Some(0),
            output: Some(34),
            reasoning: None,
        }),
        usage_basis: UsageBasis::Upstream.into(),
        cost_usd: Some("0.000098".to_owned()),
        price_version: Some(3),
        started_at: at(1, 250_000_000),
        duration_ms: Some(412.5),
        ttft_ms: Some(38.062_5),
        notes: vec!["grammar not enforced".to_owned()],
        count: 1,
    };
    let interrupted = RequestRecord {
        id: "019a9f0e-0000-7000-8000-00000000000b".to_owned(),
        account: "alice".to_owned(),
        key: "9f2c41d0".to_owned(),
        endpoint: "responses".to_owned(),
        status: RequestStatus::Interrupted.into(),
        started_at: at(2, 0),
        duration_ms: None,
        count: 1_234,
        ..RequestRecord::default()
    };
    let rejected = RequestRecord {
        id: "019a9f0e-0000-7000-8000-00000000000c".to_owned(),
        model: Some("evil\u{1b}[2J,\"model\"".to_owned()),
        status: RequestStatus::Rejected.into(),
        http_status: Some(404),
        error_code: Some("model_not_found".to_owned()),
        tokens: Some(TokenCounts::default()),
        usage_basis: UsageBasis::None.into(),
        cost_usd: Some("0".to_owned()),
        price_version: None,
        started_at: at(3, 0),
        duration_ms: Some(1.25),
        ttft_ms: None,
        deployment: None,
        notes: vec![],
        ..completed.clone()
    };
    vec![completed, interrupted, rejected]
}

#[tonic::async_trait]
impl UsageService for FakeGateway {
    /// Returns the records in pages of at most two.
    async fn list_requests(
        &self,
        request: Request<ListRequestsRequest>,
    ) -> Answer<ListRequestsResponse> {
        let input = self.record("ListRequests", request)?;
        let from: usize = input.page_token.parse().unwrap_or_default();
        let size = usize::try_from(input.page_size).unwrap().clamp(1, 2);
        let requests: Vec<_> = records().into_iter().skip(from).take(size).collect();
        let next = from + requests.len();
        let next_page_token = if next < 3 { next.to_string() } else { String::new() };
        answer(ListRequestsResponse { requests, next_page_token })
    }

    async fn get_request(&self, request: Request<GetRequestRequest>) -> Answer<GetRequestResponse> {
        self.record("GetRequest", request)?;
        answer(GetRequestResponse { request: records().into_iter().next() })
    }

    async fn list_requests_in_flight(
        &self,
        request: Request<ListRequestsInFlightRequest>,
    ) -> Answer<ListRequestsInFlightResponse> {
        self.record("ListRequestsInFlight", request)?;
        let in_flight = RequestInFlight {
            id: "019a9f0e-0000-7000-8000-00000000000d".to_owned(),
            account: "alice".to_owned(),
            key: "9f2c41d0".to_owned(),
            endpoint: "responses".to_owned(),
            model: "sim-fast".to_owned(),
            deployment: "sim/fast:v1".to_owned(),
            stream: true,
            started_at: at(4, 0),
            age_ms: 1_250.5,
            input_bytes: 812,
            output_bytes: 4_096,
        };
        let younger = RequestInFlight {
            id: "019a9f0e-0000-7000-8000-00000000000e".to_owned(),
            age_ms: 250.0,
            ..in_flight.clone()
        };
        answer(ListRequestsInFlightResponse { requests: vec![in_flight, younger], total: 3 })
    }

    async fn cancel_request(
        &self,
        request: Request<CancelRequestRequest>,
    ) -> Answer<CancelRequestResponse> {
        self.record("CancelRequest", request)?;
        answer(CancelRequestResponse {})
    }

    async fn capture_requests(
        &self,
        request: Request<CaptureRequestsRequest>,
    ) -> Answer<CaptureRequestsResponse> {
        self.record("CaptureRequests", request)?;
        answer(CaptureRequestsResponse { until: at(600, 0) })
    }

    async fn get_request_wire(
        &self,
        request: Request<GetRequestWireRequest>,
    ) -> Answer<GetRequestWireResponse> {
        self.record("GetRequestWire", request)?;
        let message =
            |kind: WireMessageKind, upstream: &str, head: &[&str], body: &str| WireMessage {
                kind: kind.into(),
                upstream: upstream.to_owned(),
                head: head.iter().map(|line| (*line).to_owned()).collect(),
                body: body.to_owned(),
                body_bytes: body.len() as u64,
                kept_bytes: body.len() as u64,
            };
        let head = ["POST /v1/chat/completions", "authorization: [redacted]"];
        answer(GetRequestWireResponse {
            messages: vec![
                message(WireMessageKind::Received, "", &head, "{\"model\":\"m\u{1b}[2J\"}"),
                message(WireMessageKind::Sent, "gpu", &["POST chat/completions"], "{}"),
                WireMessage {
                    body_bytes: 70_000,
                    ..message(WireMessageKind::Answered, "gpu", &["200 OK"], "data: a\n\ndata: b")
                },
                message(WireMessageKind::Returned, "", &["200 OK"], "{}"),
            ],
        })
    }

    type TailRequestsStream =
        Pin<Box<dyn Stream<Item = Result<TailRequestsResponse, Status>> + Send>>;

    /// Sends two batches, then ends or stays open. With [`TailBehaviour::Break`], the first
    /// connection fails after the first batch, and one with a cursor starts with the second.
    async fn tail_requests(
        &self,
        request: Request<TailRequestsRequest>,
    ) -> Answer<Self::TailRequestsStream> {
        let input = self.record("TailRequests", request)?;
        let (first, second) = {
            let mut first = records();
            let second = first.split_off(1);
            (first, second)
        };
        let batch = |requests, cursor: &str, dropped, live| {
            Ok(TailRequestsResponse { requests, cursor: cursor.to_owned(), dropped, live })
        };
        let mut batches = vec![
            batch(first, "c1", 0, true),
            batch(vec![], "c1", 0, true),
            batch(second, "c2", 7, true),
        ];
        let tails = self.state.lock().unwrap().tails;
        match (tails, input.cursor.as_str()) {
            (TailBehaviour::Break, "") => {
                batches[1] = Err(Status::unavailable("shutting down"));
                batches.pop();
            }
            (TailBehaviour::Break, _) => batches = batches.split_off(2),
            (TailBehaviour::Open | TailBehaviour::End, _) => {}
        }
        let history = tokio_stream::iter(batches);
        if tails == TailBehaviour::End {
            return answer(Box::pin(history));
        }
        // The captured sender keeps the stream open.
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let open = ReceiverStream::new(receiver).map(move |item| {
            let _sender = &sender;
            item
        });
        answer(Box::pin(history.chain(open)))
    }

    type ExportResponsesStream =
        Pin<Box<dyn Stream<Item = Result<ExportResponsesResponse, Status>> + Send>>;

    /// Sends one line in two chunks.
    async fn export_responses(
        &self,
        request: Request<ExportResponsesRequest>,
    ) -> Answer<Self::ExportResponsesStream> {
        self.record("ExportResponses", request)?;
        let chunk = |data: &str| Ok(ExportResponsesResponse { data: data.as_bytes().to_vec() });
        let chunks = [chunk("{\"record\":\"response\","), chunk("\"id\":\"resp_1\"}\n")];
        answer(Box::pin(tokio_stream::iter(chunks)))
    }

    type ExportRequestsStream =
        Pin<Box<dyn Stream<Item = Result<ExportRequestsResponse, Status>> + Send>>;

    /// Sends the records in two pages.
    async fn export_requests(
        &self,
        request: Request<ExportRequestsRequest>,
    ) -> Answer<Self::ExportRequestsStream> {
        self.record("ExportRequests", request)?;
        let mut first = records();
        let second = first.split_off(2);
        let page = |requests| Ok(ExportRequestsResponse { requests });
        answer(Box::pin(tokio_stream::iter([page(first), page(second)])))
    }

    async fn summarize_usage(
        &self,
        request: Request<SummarizeUsageRequest>,
    ) -> Answer<SummarizeUsageResponse> {
        self.record("SummarizeUsage", request)?;
        let totals = || {
            Some(UsageTotals {
                requests: 3,
                errors: 1,
                tokens: Some(TokenCounts {
                    input: Some(120),
                    cached: Some(0),
                    output: Some(34),
                    reasoning: None,
                }),
                cost_usd: "0.000098".to_owned(),
            })
        };
        answer(SummarizeUsageResponse {
            totals: totals(),
            by_model: vec![ModelUsage { model: "sim-fast".to_owned(), totals: totals() }],
            by_day: vec![DayUsage { day: "2026-11-20".to_owned(), totals: totals() }],
            by_hour: Vec::new(),
            by_minute: Vec::new(),
            by_model_and_time: Vec::new(),
            by_key: vec![KeyUsage {
                key: "9f2c41d0".to_owned(),
                label: "ci".to_owned(),
                account: "alice".to_owned(),
                totals: totals(),
            }],
        })
    }
}
