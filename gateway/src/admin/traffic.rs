//! `TrafficService`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use proto::v1::{self, traffic_service_server::TrafficService};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, async_trait};

use super::{RpcResult, auth, convert};
use crate::control::Control;

/// The interval of updates if the request contains none.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Traffic {
    pub(super) control: Arc<Control>,
    /// Ends watch streams, which are otherwise endless.
    pub(super) shutdown: CancellationToken,
}

#[async_trait]
impl TrafficService for Traffic {
    type WatchTrafficStream = BoxStream<'static, Result<v1::WatchTrafficResponse, Status>>;

    async fn watch_traffic(
        &self,
        request: Request<v1::WatchTrafficRequest>,
    ) -> RpcResult<Self::WatchTrafficStream> {
        let caller = auth::caller(&self.control, &request).await?;
        let v1::WatchTrafficRequest { account, interval_ms } = request.into_inner();
        let interval = match interval_ms {
            0 => DEFAULT_INTERVAL,
            milliseconds => Duration::from_millis(milliseconds.into()),
        };
        let stop = self.shutdown.clone();
        let snapshots = self.control.watch_traffic(&caller, &account, interval, stop)?;
        Ok(Response::new(snapshots.map(|next| Ok(convert::snapshot(next?))).boxed()))
    }

    async fn list_limit_use(
        &self,
        request: Request<v1::ListLimitUseRequest>,
    ) -> RpcResult<v1::ListLimitUseResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let limits = self.control.list_limit_use(&caller, &request.into_inner().account).await?;
        let limits = limits.into_iter().map(convert::limit_use).collect();
        Ok(Response::new(v1::ListLimitUseResponse { limits }))
    }

    async fn list_upstream_health(
        &self,
        request: Request<v1::ListUpstreamHealthRequest>,
    ) -> RpcResult<v1::ListUpstreamHealthResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let upstreams = self.control.list_upstream_health(&caller)?;
        let upstreams = upstreams.into_iter().map(convert::upstream_health).collect();
        Ok(Response::new(v1::ListUpstreamHealthResponse { upstreams }))
    }
}
