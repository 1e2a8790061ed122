//! The server streams: request log and live traffic.

use futures_util::TryStreamExt;
use futures_util::stream::{BoxStream, StreamExt, once, pending};
use proto::client;
use proto::v1;
use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use tonic::Status;

use super::call::with_timeout;
use crate::model::log::HISTORY_RECORDS;
use crate::model::subscription::Scope;

/// The interval between traffic snapshots, in milliseconds.
const INTERVAL_MS: u32 = 1_000;

/// The number of records beyond which the log skips to the newest ones. Over a link of 20 KB/s, they take
/// ten seconds; over a fast one, the log shows 5,000 requests a second without a gap.
const MAX_BACKLOG: u32 = 1_000;

/// A server stream of the gateway. The call starts with the first poll.
pub(super) struct ServerStream<T>(BoxStream<'static, Result<T, Status>>);

/// Streams the request records that match `filter`: those after `cursor`, or the most recent
/// history and new records if `cursor` is empty.
pub(super) fn log(
    channel: client::Connection,
    filter: &str,
    cursor: &str,
) -> ServerStream<v1::TailRequestsResponse> {
    let filter = (!filter.is_empty())
        .then(|| v1::RequestFilter { expression: filter.to_owned(), ..Default::default() });
    let history = u32::try_from(HISTORY_RECORDS).unwrap_or(u32::MAX);
    let cursor = cursor.to_owned();
    let request = v1::TailRequestsRequest { filter, cursor, history, max_backlog: MAX_BACKLOG };
    let open =
        async move { with_timeout(UsageServiceClient::new(channel).tail_requests(request)).await };
    ServerStream(once(open).try_flatten().boxed())
}

/// Streams traffic snapshots.
pub(super) fn traffic(
    channel: client::Connection,
    scope: Scope,
) -> ServerStream<v1::WatchTrafficResponse> {
    let account = match scope {
        Scope::Account => String::new(),
        Scope::Gateway => "*".to_owned(),
    };
    let request = v1::WatchTrafficRequest { account, interval_ms: INTERVAL_MS };
    let open = async move {
        with_timeout(TrafficServiceClient::new(channel).watch_traffic(request)).await
    };
    ServerStream(once(open).try_flatten().boxed())
}

// === impl ServerStream ===

impl<T: Send + 'static> ServerStream<T> {
    /// Returns a stream that never yields.
    pub(super) fn pending() -> Self {
        Self(pending().boxed())
    }

    /// Waits for the next response.
    ///
    /// # Errors
    /// Returns the status of a failed call, or `Unavailable` at the end of the stream.
    ///
    /// # Cancel safety
    /// Cancel safe: no response is lost.
    pub(super) async fn next(&mut self) -> Result<T, Status> {
        match self.0.next().await {
            Some(answer) => answer,
            None => Err(Status::unavailable("the stream ended")),
        }
    }
}
