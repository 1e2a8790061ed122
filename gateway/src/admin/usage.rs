//! `UsageService`.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use proto::v1::{self, usage_service_server::UsageService};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, async_trait};

use super::status::invalid;
use super::{Answer, auth, convert, page_size};
use crate::control::Control;

pub(super) struct Usage {
    pub(super) control: Arc<Control>,
    /// Ends the tails, which have no end of their own.
    pub(super) shutdown: CancellationToken,
}

#[async_trait]
impl UsageService for Usage {
    async fn list_requests(
        &self,
        request: Request<v1::ListRequestsRequest>,
    ) -> Answer<v1::ListRequestsResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::ListRequestsRequest { filter, page_size: asked, page_token } = request.into_inner();
        let (choice, size) = (convert::choice(filter).map_err(invalid)?, page_size(asked, 50));
        let page = self.control.list_requests(&caller, choice, size, &page_token).await?;
        Ok(Response::new(v1::ListRequestsResponse {
            requests: page.items.into_iter().map(convert::record).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn get_request(
        &self,
        request: Request<v1::GetRequestRequest>,
    ) -> Answer<v1::GetRequestResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let record = self.control.get_request(&caller, &request.into_inner().id).await?;
        Ok(Response::new(v1::GetRequestResponse { request: Some(convert::record(record)) }))
    }

    type TailRequestsStream = BoxStream<'static, Result<v1::TailRequestsResponse, Status>>;

    async fn tail_requests(
        &self,
        request: Request<v1::TailRequestsRequest>,
    ) -> Answer<Self::TailRequestsStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let (choice, start) = convert::tail(request.into_inner()).map_err(invalid)?;
        let tail = self.control.tail(&caller, choice, start, self.shutdown.clone())?;
        let answers = tail.map(|news| news.map(convert::news).map_err(Status::from));
        Ok(Response::new(answers.boxed()))
    }

    type ExportRequestsStream = BoxStream<'static, Result<v1::ExportRequestsResponse, Status>>;

    async fn export_requests(
        &self,
        request: Request<v1::ExportRequestsRequest>,
    ) -> Answer<Self::ExportRequestsStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let choice = convert::choice(request.into_inner().filter).map_err(invalid)?;
        let stop = self.shutdown.clone();
        let pages = self.control.export_requests(&caller, choice, stop).await?;
        let answers = pages.map(|page| page.map(convert::export).map_err(Status::from));
        Ok(Response::new(answers.boxed()))
    }

    async fn summarize_usage(
        &self,
        request: Request<v1::SummarizeUsageRequest>,
    ) -> Answer<v1::SummarizeUsageResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let choice = convert::choice(request.into_inner().filter).map_err(invalid)?;
        let summary = self.control.summarize(&caller, choice).await?;
        Ok(Response::new(convert::summary(summary)))
    }
}
