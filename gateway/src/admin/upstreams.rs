//! `UpstreamService`.

use std::sync::Arc;

use proto::v1::{self, upstream_service_server::UpstreamService};
use tonic::{Request, Response, async_trait};

use super::status::invalid;
use super::{RpcResult, auth, convert};
use crate::control::Control;

pub(super) struct Upstreams {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl UpstreamService for Upstreams {
    async fn list_upstreams(
        &self,
        request: Request<v1::ListUpstreamsRequest>,
    ) -> RpcResult<v1::ListUpstreamsResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let upstreams = self.control.list_upstreams(&caller)?;
        let upstreams = upstreams.into_iter().map(convert::upstream).collect();
        Ok(Response::new(v1::ListUpstreamsResponse { upstreams }))
    }

    async fn add_upstream(
        &self,
        request: Request<v1::AddUpstreamRequest>,
    ) -> RpcResult<v1::AddUpstreamResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let (name, change) =
            convert::new_upstream(request.into_inner().upstream).map_err(invalid)?;
        let upstream = self.control.add_upstream(&caller, name, change).await?;
        Ok(Response::new(v1::AddUpstreamResponse { upstream: Some(convert::upstream(upstream)) }))
    }

    async fn update_upstream(
        &self,
        request: Request<v1::UpdateUpstreamRequest>,
    ) -> RpcResult<v1::UpdateUpstreamResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let (name, change) = convert::upstream_change(request.into_inner()).map_err(invalid)?;
        let upstream = self.control.update_upstream(&caller, name, change).await?;
        let upstream = Some(convert::upstream(upstream));
        Ok(Response::new(v1::UpdateUpstreamResponse { upstream }))
    }

    async fn remove_upstream(
        &self,
        request: Request<v1::RemoveUpstreamRequest>,
    ) -> RpcResult<v1::RemoveUpstreamResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        self.control.remove_upstream(&caller, request.into_inner().name).await?;
        Ok(Response::new(v1::RemoveUpstreamResponse {}))
    }

    async fn reset_upstream(
        &self,
        request: Request<v1::ResetUpstreamRequest>,
    ) -> RpcResult<v1::ResetUpstreamResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        self.control.reset_upstream(&caller, request.into_inner().name).await?;
        Ok(Response::new(v1::ResetUpstreamResponse {}))
    }
}
