//! `UsageService`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use proto::v1::{self, usage_service_server::UsageService};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert, page_size};
use crate::control::Control;

pub(super) struct Usage {
    pub(super) control: Arc<Control>,
    /// Ends tail streams, which are otherwise endless, and exports.
    pub(super) shutdown: CancellationToken,
}

#[async_trait]
impl UsageService for Usage {
    async fn list_requests(
        &self,
        request: Request<v1::ListRequestsRequest>,
    ) -> RpcResult<v1::ListRequestsResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::ListRequestsRequest { filter, page_size: requested, page_token } =
            request.into_inner();
        let (filter, size) = (convert::filter(filter).map_err(invalid)?, page_size(requested, 50));
        let page = self.control.list_requests(&caller, filter, size, &page_token).await?;
        Ok(Response::new(v1::ListRequestsResponse {
            requests: page.items.into_iter().map(convert::record).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn get_request(
        &self,
        request: Request<v1::GetRequestRequest>,
    ) -> RpcResult<v1::GetRequestResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let record = self.control.get_request(&caller, &request.into_inner().id).await?;
        Ok(Response::new(v1::GetRequestResponse { request: Some(convert::record(record)) }))
    }

    async fn list_requests_in_flight(
        &self,
        request: Request<v1::ListRequestsInFlightRequest>,
    ) -> RpcResult<v1::ListRequestsInFlightResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let in_flight = self.control.requests_in_flight(&caller, &request.into_inner().account)?;
        Ok(Response::new(convert::requests_in_flight(in_flight)))
    }

    async fn cancel_request(
        &self,
        request: Request<v1::CancelRequestRequest>,
    ) -> RpcResult<v1::CancelRequestResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        self.control.cancel_request(&caller, &request.into_inner().id).await?;
        Ok(Response::new(v1::CancelRequestResponse {}))
    }

    async fn capture_requests(
        &self,
        request: Request<v1::CaptureRequestsRequest>,
    ) -> RpcResult<v1::CaptureRequestsResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::CaptureRequestsRequest { key, seconds } = request.into_inner();
        let duration = Duration::from_secs(seconds.into());
        let until = self.control.capture_requests(&caller, &key, duration).await?;
        Ok(Response::new(v1::CaptureRequestsResponse { until: Some(convert::time(until)) }))
    }

    async fn get_request_wire(
        &self,
        request: Request<v1::GetRequestWireRequest>,
    ) -> RpcResult<v1::GetRequestWireResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let messages = self.control.captured_messages(&caller, &request.into_inner().id).await?;
        let messages = messages.into_iter().map(convert::wire_message).collect();
        Ok(Response::new(v1::GetRequestWireResponse { messages }))
    }

    type TailRequestsStream = BoxStream<'static, Result<v1::TailRequestsResponse, Status>>;

    async fn tail_requests(
        &self,
        request: Request<v1::TailRequestsRequest>,
    ) -> RpcResult<Self::TailRequestsStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let (filter, start, max_backlog) = convert::tail(request.into_inner()).map_err(invalid)?;
        let stop = self.shutdown.clone();
        let tail = self.control.tail(&caller, filter, start, max_backlog, stop)?;
        let responses = tail.map(|update| update.map(convert::tail_update).map_err(Status::from));
        Ok(Response::new(responses.boxed()))
    }

    type ExportRequestsStream = BoxStream<'static, Result<v1::ExportRequestsResponse, Status>>;

    async fn export_requests(
        &self,
        request: Request<v1::ExportRequestsRequest>,
    ) -> RpcResult<Self::ExportRequestsStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let filter = convert::filter(request.into_inner().filter).map_err(invalid)?;
        let stop = self.shutdown.clone();
        let pages = self.control.export_requests(&caller, filter, stop).await?;
        let responses = pages.map(|page| page.map(convert::export).map_err(Status::from));
        Ok(Response::new(responses.boxed()))
    }

    type ExportResponsesStream = BoxStream<'static, Result<v1::ExportResponsesResponse, Status>>;

    async fn export_responses(
        &self,
        request: Request<v1::ExportResponsesRequest>,
    ) -> RpcResult<Self::ExportResponsesStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let account = match request.into_inner().account {
            account if account.is_empty() => caller.account.id.to_string(),
            account => account,
        };
        let stop = self.shutdown.clone();
        let responses = self.control.export_responses(&caller, &account, stop).await?;
        let chunks = responses.map_ok(|response| convert::response_chunks(&response));
        let chunks = chunks.map_ok(|chunks| stream::iter(chunks.into_iter().map(Ok)));
        Ok(Response::new(chunks.map_err(Status::from).try_flatten().boxed()))
    }

    async fn summarize_usage(
        &self,
        request: Request<v1::SummarizeUsageRequest>,
    ) -> RpcResult<v1::SummarizeUsageResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::SummarizeUsageRequest { filter, models_by_time } = request.into_inner();
        let filter = convert::filter(filter).map_err(invalid)?;
        let summary = self.control.summarize(&caller, filter).await?;
        Ok(Response::new(convert::summary(summary, models_by_time)))
    }
}
