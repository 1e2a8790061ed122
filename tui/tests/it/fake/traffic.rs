//! The traffic service. Its stream sends one snapshot and stays open.

use futures_util::stream::{BoxStream, StreamExt, once, pending};
use proto::v1::traffic_service_server::TrafficService;
use proto::v1::{
    BreakerState, LimitKind, LimitScope, LimitUse, ListLimitUseRequest, ListLimitUseResponse,
    ListUpstreamHealthRequest, ListUpstreamHealthResponse, MinuteTraffic, UpstreamHealth,
    WatchTrafficRequest, WatchTrafficResponse,
};
use tonic::{Request, Response, Status};

use super::{Backend, authorize};

#[tonic::async_trait]
impl TrafficService for Backend {
    type WatchTrafficStream = BoxStream<'static, Result<WatchTrafficResponse, Status>>;

    async fn watch_traffic(
        &self,
        request: Request<WatchTrafficRequest>,
    ) -> Result<Response<Self::WatchTrafficStream>, Status> {
        authorize(&request)?;
        let is_gateway = request.into_inner().account == "*";
        let in_flight = if is_gateway { 7 } else { 3 };
        let minutes = vec![MinuteTraffic { requests: 5, errors: 1, tokens: 900 }; 60];
        let snapshot = WatchTrafficResponse { in_flight, minutes, ..Default::default() };
        Ok(Response::new(once(async { Ok(snapshot) }).chain(pending()).boxed()))
    }

    async fn list_limit_use(
        &self,
        request: Request<ListLimitUseRequest>,
    ) -> Result<Response<ListLimitUseResponse>, Status> {
        authorize(&request)?;
        let limit = LimitUse {
            scope: LimitScope::Plan.into(),
            subject: "free".to_owned(),
            kind: LimitKind::Requests.into(),
            limit: 60,
            used: 12,
            ..LimitUse::default()
        };
        Ok(Response::new(ListLimitUseResponse { limits: vec![limit] }))
    }

    async fn list_upstream_health(
        &self,
        request: Request<ListUpstreamHealthRequest>,
    ) -> Result<Response<ListUpstreamHealthResponse>, Status> {
        authorize(&request)?;
        let breaker = BreakerState::Open.into();
        let health = UpstreamHealth { name: "local".to_owned(), breaker, ..Default::default() };
        Ok(Response::new(ListUpstreamHealthResponse { upstreams: vec![health] }))
    }
}
