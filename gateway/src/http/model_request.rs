//! Serves a model request whose body has been received: on its worker, or offloaded if the body is large.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;

use super::handler::EdgeState;
use crate::pipeline::AppState;
use crate::pipeline::answer::Answer;
use crate::pipeline::authenticate::Principal;
use crate::pipeline::failed_request::FailedRequest;
use crate::pipeline::open_request::OpenRequest;
use crate::pipeline::serve::{ModelEndpoint, serve};

/// Serves a request on its worker.
pub(super) async fn serve_body(
    app: &Arc<AppState>,
    edge: &EdgeState,
    principal: &Principal,
    endpoint: ModelEndpoint,
    head: &Parts,
    body: Bytes,
    open: Box<OpenRequest>,
) -> Result<Answer, Box<FailedRequest>> {
    if let Err(refusal) = edge.bodies().check_depth(&body) {
        return Err(FailedRequest::before_forwarding(open, refusal));
    }
    if let Some(capture) = open.capture() {
        capture.received(&head.method, &head.uri, &head.headers, &body);
    }
    serve(app, principal, endpoint, &head.headers, body, open).await
}

/// Serves a request whose body is so large that it would delay the other requests of the worker. Its future is boxed,
/// because that of every request would have to hold it.
pub(super) fn serve_large_body(
    app: &Arc<AppState>,
    edge: &Arc<EdgeState>,
    principal: &Principal,
    endpoint: ModelEndpoint,
    head: &Parts,
    body: Bytes,
    mut open: Box<OpenRequest>,
) -> Pin<Box<impl Future<Output = Result<Answer, Box<FailedRequest>>> + Send + use<>>> {
    let (app, edge) = (app.clone(), edge.clone());
    let (principal, head) = (principal.clone(), head.clone());
    let (account, end, offload) = (principal.account.id, open.begin_offload(), app.offload.clone());
    let serving =
        async move { serve_body(&app, &edge, &principal, endpoint, &head, body, open).await };
    Box::pin(async move { offload.run_until(&end, account, Box::pin(serving)).await })
}
