//! The two streams: request log and traffic.

use futures_util::TryStreamExt;
use futures_util::stream::{BoxStream, StreamExt, once, pending};
use proto::client;
use proto::v1;
use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use tonic::Status;

use super::call::with_timeout;
use crate::model::log::MAX_LOG_RECORDS;
use crate::model::subscription::TrafficScope;

/// Milliseconds between two pictures of the traffic.
const INTERVAL_MS: u32 = 1_000;

/// A stream of the gateway, opened when it is first waited for.
pub(super) struct ServerStream<T>(BoxStream<'static, Result<T, Status>>);

/// Follows the requests for which `filter` holds, after `cursor` or from some history on.
pub(super) fn log(
    channel: client::Connection,
    filter: &str,
    cursor: &str,
) -> ServerStream<v1::TailRequestsResponse> {
    let filter = (!filter.is_empty())
        .then(|| v1::RequestFilter { expression: filter.to_owned(), ..Default::default() });
    let history = u32::try_from(MAX_LOG_RECORDS).unwrap_or(u32::MAX);
    let request = v1::TailRequestsRequest { filter, cursor: cursor.to_owned(), history };
    let open =
        async move { with_timeout(UsageServiceClient::new(channel).tail_requests(request)).await };
    ServerStream(once(open).try_flatten().boxed())
}

/// Follows the traffic.
pub(super) fn traffic(
    channel: client::Connection,
    scope: TrafficScope,
) -> ServerStream<v1::WatchTrafficResponse> {
    let account = match scope {
        TrafficScope::Account => String::new(),
        TrafficScope::Gateway => "*".to_owned(),
    };
    let request = v1::WatchTrafficRequest { account, interval_ms: INTERVAL_MS };
    let open = async move {
        with_timeout(TrafficServiceClient::new(channel).watch_traffic(request)).await
    };
    ServerStream(once(open).try_flatten().boxed())
}

// === impl Feed ===

impl<T: Send + 'static> ServerStream<T> {
    /// Returns a feed that never says anything.
    pub(super) fn pending() -> Self {
        Self(pending().boxed())
    }

    /// Waits for the next answer; the end of a stream is an error. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<T, Status> {
        match self.0.next().await {
            Some(answer) => answer,
            None => Err(Status::unavailable("the stream ended")),
        }
    }
}
