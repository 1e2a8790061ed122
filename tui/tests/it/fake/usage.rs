//! The usage service. Supports only the filter `model:NAME`.

use futures_util::stream::{BoxStream, StreamExt, unfold};
use proto::v1::usage_service_server::UsageService;
use proto::v1::{
    CancelRequestRequest, CancelRequestResponse, CaptureRequestsRequest, CaptureRequestsResponse,
    DayUsage, ExportRequestsRequest, ExportRequestsResponse, ExportResponsesRequest,
    ExportResponsesResponse, GetRequestRequest, GetRequestResponse, GetRequestWireRequest,
    GetRequestWireResponse, ListRequestsInFlightRequest, ListRequestsInFlightResponse,
    ListRequestsRequest, ListRequestsResponse, ModelUsage, RequestRecord, SummarizeUsageRequest,
    SummarizeUsageResponse, TailRequestsRequest, TailRequestsResponse, TokenCounts, UsageTotals,
};
use tonic::{Request, Response, Status};

use super::{Backend, authorize};

/// The maximum number of records per batch.
const BATCH: usize = 500;

#[tonic::async_trait]
impl UsageService for Backend {
    type TailRequestsStream = BoxStream<'static, Result<TailRequestsResponse, Status>>;
    type ExportResponsesStream = BoxStream<'static, Result<ExportResponsesResponse, Status>>;

    async fn list_requests_in_flight(
        &self,
        request: Request<ListRequestsInFlightRequest>,
    ) -> Result<Response<ListRequestsInFlightResponse>, Status> {
        authorize(&request)?;
        Ok(Response::new(ListRequestsInFlightResponse::default()))
    }

    async fn capture_requests(
        &self,
        _: Request<CaptureRequestsRequest>,
    ) -> Result<Response<CaptureRequestsResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get_request_wire(
        &self,
        _: Request<GetRequestWireRequest>,
    ) -> Result<Response<GetRequestWireResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn cancel_request(
        &self,
        _: Request<CancelRequestRequest>,
    ) -> Result<Response<CancelRequestResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn export_responses(
        &self,
        _: Request<ExportResponsesRequest>,
    ) -> Result<Response<Self::ExportResponsesStream>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    type ExportRequestsStream = BoxStream<'static, Result<ExportRequestsResponse, Status>>;

    async fn tail_requests(
        &self,
        request: Request<TailRequestsRequest>,
    ) -> Result<Response<Self::TailRequestsStream>, Status> {
        authorize(&request)?;
        let TailRequestsRequest { cursor, history, filter, .. } = request.into_inner();
        let expression = filter.unwrap_or_default().expression;
        let model = match expression.split_once(':') {
            None if expression.is_empty() => None,
            Some(("model", model)) => Some(model.to_owned()),
            _ => return Err(Status::invalid_argument(format!("`{expression}` is no condition"))),
        };
        let length = self.records.borrow().len();
        let start = match cursor.as_str() {
            "" => length.saturating_sub(history.try_into().unwrap()),
            cursor => cursor.parse().unwrap(),
        };
        if start > length {
            return Err(Status::out_of_range("no such cursor"));
        }
        let matches = move |record: &&RequestRecord| model.is_none() || record.model == model;
        let updates = self.records.subscribe();
        let stream = unfold((updates, start, true), move |(mut updates, start, first)| {
            let matches = matches.clone();
            async move {
                if !first {
                    updates.wait_for(|records| records.len() != start).await.ok()?;
                }
                let records = updates.borrow_and_update().get(start..)?.to_vec();
                let sent = records.len().min(BATCH);
                let requests = records[..sent].iter().filter(matches).cloned().collect();
                let end = start + sent;
                let (cursor, live) = (end.to_string(), sent == records.len());
                let answer = TailRequestsResponse { requests, cursor, dropped: 0, live };
                Some((Ok(answer), (updates, end, !live)))
            }
        });
        Ok(Response::new(stream.boxed()))
    }

    async fn summarize_usage(
        &self,
        request: Request<SummarizeUsageRequest>,
    ) -> Result<Response<SummarizeUsageResponse>, Status> {
        authorize(&request)?;
        let requests = self.records.borrow().len() as u64;
        let tokens =
            TokenCounts { input: Some(12 * requests), output: Some(3), ..TokenCounts::default() };
        let cost_usd = "0.000100".to_owned();
        let totals = Some(UsageTotals { requests, errors: 0, tokens: Some(tokens), cost_usd });
        Ok(Response::new(SummarizeUsageResponse {
            by_model: vec![ModelUsage { model: "gpt-sim".to_owned(), totals: totals.clone() }],
            by_hour: Vec::new(),
            by_minute: Vec::new(),
            by_model_and_time: Vec::new(),
            by_day: vec![DayUsage { day: "2026-11-20".to_owned(), totals: totals.clone() }],
            by_key: Vec::new(),
            totals,
        }))
    }

    async fn list_requests(
        &self,
        request: Request<ListRequestsRequest>,
    ) -> Result<Response<ListRequestsResponse>, Status> {
        authorize(&request)?;
        let ListRequestsRequest { filter, page_size, page_token } = request.into_inner();
        if filter.is_some_and(|filter| !filter.expression.is_empty()) {
            return Ok(Response::new(ListRequestsResponse::default()));
        }
        let skipped: usize = page_token.parse().unwrap_or(0);
        let size = usize::try_from(page_size).unwrap();
        let records = self.records.borrow();
        let requests = records.iter().rev().skip(skipped).take(size).cloned().collect();
        let end = skipped + size;
        let next_page_token = if end < records.len() { end.to_string() } else { String::new() };
        Ok(Response::new(ListRequestsResponse { requests, next_page_token }))
    }

    async fn export_requests(
        &self,
        _: Request<ExportRequestsRequest>,
    ) -> Result<Response<Self::ExportRequestsStream>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get_request(
        &self,
        _: Request<GetRequestRequest>,
    ) -> Result<Response<GetRequestResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}
