//! Serves one HTTP request, and converts its outcome to a response.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use serde_json::json;

use super::body::Reply;
use super::cors::{self, CorsOrigins};
use super::error_reply::ErrorReply;
use super::grpc;
use super::model_request;
use super::models;
use super::receive::BodyReceiver;
use super::respond;
use super::shutdown::Shutdown;
use super::stored::{self, StoredReader};
use super::target::{LocalTarget, Target, target};
use crate::broadcast::Broadcast;
use crate::cancellation::Cancellations;
use crate::offload;
use crate::pipeline::authenticate::{Principal, authenticate};
use crate::pipeline::failed_request::FailedRequest;
use crate::pipeline::open_request::{Arrival, OpenRequest};
use crate::pipeline::outcome::{DropOutcome, RequestOutcome};
use crate::pipeline::{AppState, Fault, admit};
use domain::id::RequestId;
use domain::refusal::{Refusal, RequestFault};

/// Serves requests. One for each worker.
pub struct Handler {
    app: Arc<AppState>,
    edge: Arc<EdgeState>,
}

/// The state of the edge that all workers share.
pub struct EdgeState {
    bodies: BodyReceiver,
    stored: StoredReader,
    shutdown: Arc<Shutdown>,
    /// `None` turns CORS off.
    cors: ArcSwapOption<CorsOrigins>,
    verbose_health: Bytes,
}

impl EdgeState {
    /// Creates the state of an edge that receives request bodies through `bodies`, and that pages of the origins
    /// `cors` may use. `verbose_health` is the JSON object that `/healthz?verbose` answers with.
    /// `broadcast` wakes the tasks of connections and streams.
    pub fn new(
        bodies: BodyReceiver,
        cors: Option<CorsOrigins>,
        verbose_health: Bytes,
        broadcast: Arc<Broadcast>,
    ) -> Self {
        let stored = StoredReader::new(bodies.budget().clone());
        let cors = ArcSwapOption::new(cors.map(Arc::new));
        Self { bodies, stored, shutdown: Arc::new(Shutdown::new(broadcast)), cors, verbose_health }
    }

    /// Sets the origins whose pages may use the API; `None` turns CORS off.
    pub fn set_cors(&self, cors: Option<CorsOrigins>) {
        self.cors.store(cors.map(Arc::new));
    }

    /// Returns what receives request bodies.
    pub(super) fn bodies(&self) -> &BodyReceiver {
        &self.bodies
    }

    /// Returns the shutdown that requests observe.
    pub(super) fn shutdown(&self) -> &Arc<Shutdown> {
        &self.shutdown
    }
}

impl Handler {
    /// Creates the handler of a worker whose requests use `app`.
    pub fn new(app: Arc<AppState>, edge: Arc<EdgeState>) -> Self {
        Self { app, edge }
    }

    /// Returns the shutdown that requests observe.
    pub(super) fn shutdown(&self) -> Arc<Shutdown> {
        self.edge.shutdown.clone()
    }

    /// Returns the requests that are to end now.
    pub(super) fn cancellations(&self) -> Arc<Cancellations> {
        self.app.cancellations.clone()
    }

    /// Returns the whole answer, head and body, to a head of HTTP/1 that cannot be read. The connection ends with
    /// it.
    pub(super) fn protocol_error(&self, status: StatusCode) -> Bytes {
        respond::encoded(&ErrorReply::protocol(status), &Arrival::now(&self.app))
    }

    /// Answers one request. A panic is answered as well, and its drop settles the request.
    pub async fn serve(&self, head: &Parts, body: Incoming) -> Response<Reply> {
        let arrival = Arrival::now(&self.app);
        let cors = self.edge.cors.load();
        let permitted = cors.as_ref().map(|origins| origins.permitted(&head.headers));
        // Not held while the request is served: a thread has few slots for such guards, and others cost more.
        drop(cors);
        let outcome = AssertUnwindSafe(self.dispatch(arrival, head, body)).catch_unwind().await;
        let mut response = outcome.unwrap_or_else(|_| {
            tracing::error!(event = "request_panicked", request_id = %arrival.id, "a request panicked");
            respond::error(ErrorReply::internal())
        });
        response.headers_mut().insert(respond::REQUEST_ID, arrival.id_header());
        if let Some((permitted, origins)) = permitted.zip(self.edge.cors.load().as_ref()) {
            origins.add_headers(permitted, response.headers_mut());
        }
        response
    }

    async fn dispatch(
        &self,
        arrival: Arrival,
        head: &Parts,
        incoming: Incoming,
    ) -> Response<Reply> {
        if let Some(response) = self.answer_before_authentication(head) {
            return response;
        }
        let path = head.uri.path();
        let target = target(&head.method, path, &head.headers);
        let principal = match authenticate(&self.app, &head.headers) {
            Ok(principal) => principal,
            Err(_) if grpc::is_call(head) => return grpc::refuse(),
            Err(_) if matches!(target, Target::Local(LocalTarget::Unknown)) => {
                let refusal = Refusal::UnknownUrl { path: shown(path) };
                return respond::error(ErrorReply::from(&refusal));
            }
            // The key may be newer than the directory.
            Err(_) if !self.app.contact.is_recent() => {
                return respond::error(ErrorReply::from(&Refusal::DatabaseUnreachable));
            }
            Err(refusal) => return respond::error(ErrorReply::from(&refusal)),
        };
        let endpoint = target.endpoint();
        let (key, account) = (&principal.key.id, principal.account.id);
        let mut open = OpenRequest::new(self.app.clone(), arrival, &principal, endpoint);
        open.set_trace_context(&head.headers);
        let has_content = principal.key.trace_content && open.is_traced();
        let traced_key = has_content.then(|| (principal.key.digest, open.memory_guard()));
        let captures = &self.app.captures;
        let capture = captures.begin(key, account, arrival.id, arrival.at, traced_key);
        open.set_capture(capture.clone());
        let drop_outcome = open.drop_outcome();
        let served = {
            let serving = pin!(self.serve_target(&principal, target, head, incoming, open));
            self.until_ended(arrival.id, &drop_outcome, serving).await
        };
        let mut response = match served {
            Ok(Ok(response)) => response,
            Ok(Err(failed)) => fail(*failed),
            Err(reply) => respond::error(reply),
        };
        if let Some(capture) = capture {
            let capture = capture.returned(response.status(), response.headers());
            response.body_mut().capture(capture);
        }
        if response.body().is_whole() {
            // A stream waits at its end. A failed sync is logged and does not hold back an answer.
            _ = self.app.ledger.sync_journal().await;
        }
        response
    }

    /// Answers what is decided before authentication: an ambiguous request, a preflight request, or a health check.
    fn answer_before_authentication(&self, head: &Parts) -> Option<Response<Reply>> {
        if let Some(message) = ambiguity(head) {
            let refusal = Refusal::invalid(RequestFault::InvalidValue, None, message);
            let mut response = respond::error(ErrorReply::from(&refusal));
            // What follows could be meant as a part of the body.
            if head.version < Version::HTTP_2 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            return Some(response);
        }
        if let Some(origins) = &*self.edge.cors.load()
            && cors::is_preflight(head)
            && origins.permitted(&head.headers).is_some()
        {
            return Some(cors::preflight(head));
        }
        match head.uri.path() {
            "/healthz" if is_verbose(&head.uri) => {
                Some(respond::json(self.edge.verbose_health.clone()))
            }
            "/healthz" => Some(health(true)),
            "/readyz" => Some(self.readiness()),
            _ => None,
        }
    }

    /// Waits for the result of `serving`, or ends the request early: then its outcome is that of the returned reply.
    async fn until_ended<T>(
        &self,
        id: RequestId,
        drop_outcome: &DropOutcome,
        mut serving: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, ErrorReply> {
        poll_fn(|context| match serving.as_mut().poll(context) {
            Poll::Ready(served) => Poll::Ready(Ok(served)),
            // What ends it early wakes the task.
            Poll::Pending => match self.ends_early(id) {
                Some(reason) => {
                    let fault = Fault::from(reason);
                    let reply = ErrorReply::from(&fault);
                    drop_outcome.set(reply.outcome(&fault));
                    Poll::Ready(Err(reply))
                }
                None => Poll::Pending,
            },
        })
        .await
    }

    /// Returns why a request ends before it is answered: by a shutdown, or because it was cancelled.
    fn ends_early(&self, id: RequestId) -> Option<Refusal> {
        if self.edge.shutdown.is_ending() {
            return Some(Refusal::ShuttingDown);
        }
        self.app.cancellations.is_cancelled(id).then_some(Refusal::RequestCancelled)
    }

    /// Returns whether requests should be sent here: not during a drain, and not while they are refused or
    /// cannot be recorded.
    fn readiness(&self) -> Response<Reply> {
        if !self.edge.shutdown.is_ready() || self.app.contact.is_draining() {
            return health(false);
        }
        if !self.app.contact.is_recent() {
            return unavailable(&Refusal::DatabaseUnreachable);
        }
        match self.app.ledger.write_failure() {
            None => health(true),
            Some(failure) => unavailable(&failure),
        }
    }

    async fn serve_target(
        &self,
        principal: &Principal,
        target: Target<'_>,
        head: &Parts,
        incoming: Incoming,
        open: Box<OpenRequest>,
    ) -> Result<Response<Reply>, Box<FailedRequest>> {
        if let Err(refusal) = principal.check(open.arrived_at()) {
            return Err(FailedRequest::before_forwarding(open, refusal));
        }
        if !self.app.contact.is_recent() {
            return Err(FailedRequest::before_forwarding(open, Refusal::DatabaseUnreachable));
        }
        if self.app.ledger.is_handed_over() {
            return Err(FailedRequest::before_forwarding(open, Refusal::ShuttingDown));
        }
        let endpoint = match target {
            Target::Model(endpoint) => endpoint,
            Target::Local(target) => {
                return match self.serve_locally(principal, target, head).await {
                    Ok(response) => {
                        let http_status = Some(response.status().as_u16());
                        open.close(RequestOutcome { http_status, ..RequestOutcome::completed() });
                        Ok(response)
                    }
                    Err(fault) => Err(FailedRequest::before_forwarding(open, fault)),
                };
            }
        };
        let take_place = || admit::reserve_receive_slot(&self.app, principal);
        let body = self
            .edge
            .bodies
            .receive(&head.headers, incoming, principal.account.id, take_place)
            .await;
        let body = match body {
            Ok(body) => body,
            Err(refusal) => return Err(FailedRequest::before_forwarding(open, refusal)),
        };
        let (app, edge) = (&self.app, &self.edge);
        let answer = if offload::is_quick(&body) {
            model_request::serve_body(app, edge, principal, endpoint, head, body, open).await
        } else {
            model_request::serve_large_body(app, edge, principal, endpoint, head, body, open).await
        };
        answer.map(respond::answer)
    }

    /// Serves a request that needs no upstream.
    async fn serve_locally(
        &self,
        principal: &Principal,
        target: LocalTarget<'_>,
        head: &Parts,
    ) -> Result<Response<Reply>, Fault> {
        let (account, query) = (principal.account.id, head.uri.query());
        match target {
            LocalTarget::Stored(id) => {
                Ok(stored::retrieve(&self.app, &self.edge.stored, account, id, query).await?)
            }
            LocalTarget::Delete(id) => Ok(stored::delete(&self.app, account, id).await?),
            LocalTarget::InputItems(id) => {
                Ok(stored::input_items(&self.app, &self.edge.stored, account, id, query).await?)
            }
            LocalTarget::Models => Ok(models::list(&self.app, principal, query)),
            LocalTarget::Model(name) => Ok(models::retrieve(&self.app, principal, &name)?),
            LocalTarget::WebSocket => Err(Refusal::WebSocket.into()),
            LocalTarget::WrongMethod(allowed) => {
                let method = head.method.to_string();
                Err(Refusal::MethodNotAllowed { method, allowed }.into())
            }
            LocalTarget::Unknown => {
                Err(Refusal::UnknownUrl { path: shown(head.uri.path()) }.into())
            }
        }
    }
}

/// Returns what two servers could read differently in a request, so that one behind the other could be made to take a
/// part of it for another request: the host (RFC 9112, 3.2), or a transfer coding besides `chunked` (6.1), which hyper
/// would not decode.
fn ambiguity(head: &Parts) -> Option<&'static str> {
    let hosts = head.headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && head.version == Version::HTTP_11) {
        return Some("an HTTP/1.1 request must have exactly one `Host` header");
    }
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let is_plain = codings.next().is_none_or(is_chunked) && codings.next().is_none();
    (!is_plain).then_some("`Transfer-Encoding` must be `chunked`, once, or be left out")
}

/// Answers a health check, which needs no key.
fn health(good: bool) -> Response<Reply> {
    let text = if good { r#"{"status":"ok"}"# } else { r#"{"status":"draining"}"# };
    let mut response = respond::json(text);
    if !good {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// Returns whether the query asks for details: `?verbose`, with or without a value.
fn is_verbose(uri: &Uri) -> bool {
    let mut fields = uri.query().unwrap_or_default().split('&');
    fields.any(|field| field.split('=').next() == Some("verbose"))
}

/// Answers that no requests should be sent here, for `reason`.
fn unavailable(reason: &impl std::fmt::Display) -> Response<Reply> {
    let body = json!({ "status": "unavailable", "reason": reason.to_string() });
    let mut response = respond::json(body.to_string());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

/// Settles a request that got no answer, and reports the reason.
fn fail(failed: FailedRequest) -> Response<Reply> {
    let mut reply = ErrorReply::from(&failed.fault);
    reply.show(failed.limit_status());
    let outcome = reply.outcome(&failed.fault);
    failed.close(outcome);
    respond::error(reply)
}

/// Returns the part of a path that an error repeats.
fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}
