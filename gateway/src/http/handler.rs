//! Maps a request to its endpoint, and its outcome to a response.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use http::header::{HeaderName, UPGRADE, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::body::Reply;
use super::error_reply::ErrorReply;
use super::grpc;
use super::models;
use super::receive::BodyReceiver;
use super::respond;
use super::shutdown::Shutdown;
use super::stored::{self, StoredReader};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::authenticate::{Principal, authenticate};
use crate::pipeline::outcome::RequestOutcome;
use crate::pipeline::request_guard::RequestGuard;
use crate::pipeline::responses::ClientKind;
use crate::pipeline::serve::{ModelEndpoint, serve};
use crate::pipeline::{AppState, Fault, admit};
use domain::endpoint::Endpoint;
use domain::record::RequestStatus;
use domain::refusal::Refusal;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Serves requests. One for the whole gateway.
pub struct Handler {
    app: Arc<AppState>,
    bodies: BodyReceiver,
    stored: StoredReader,
    shutdown: Arc<Shutdown>,
}

/// An endpoint of `/v1`.
enum Target<'a> {
    Chat,
    Responses,
    /// A WebSocket upgrade.
    WebSocket,
    Stored(&'a str),
    Delete(&'a str),
    InputItems(&'a str),
    Models,
    Model(Cow<'a, str>),
    WrongMethod(&'static str),
    Unknown,
}

impl Handler {
    /// Creates a handler that receives request bodies through `bodies`.
    pub fn new(app: Arc<AppState>, bodies: BodyReceiver) -> Self {
        let stored = StoredReader::new(bodies.budget().clone());
        Self { app, bodies, stored, shutdown: Arc::new(Shutdown::new()) }
    }

    /// Returns the shutdown that requests observe.
    pub(super) fn shutdown(&self) -> Arc<Shutdown> {
        self.shutdown.clone()
    }

    /// Answers one request. A panic is answered as well, and the drop of the guard settles the request.
    ///
    /// # Errors
    /// None; hyper requires a type.
    pub async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Reply>, Infallible> {
        let arrival = Arrival::now(&self.app);
        let outcome = AssertUnwindSafe(self.dispatch(arrival, request)).catch_unwind().await;
        let mut response = outcome.unwrap_or_else(|_| {
            tracing::error!(request_id = %arrival.id, "a request panicked");
            respond::error(ErrorReply::internal())
        });
        response.headers_mut().insert(REQUEST_ID, arrival.id_header());
        Ok(response)
    }

    async fn dispatch(&self, arrival: Arrival, request: Request<Incoming>) -> Response<Reply> {
        let (head, incoming) = request.into_parts();
        let path = head.uri.path();
        match path {
            "/healthz" => return health(true),
            "/readyz" => return self.readiness(),
            _ => {}
        }
        let target = target(&head.method, path, &head.headers);
        let principal = match authenticate(&self.app, &head.headers) {
            Ok(principal) => principal,
            Err(_) if grpc::is_call(&head) => return grpc::refuse(),
            Err(_) if matches!(target, Target::Unknown) => {
                let refusal = Refusal::UnknownUrl { path: shown(path) };
                return respond::error(ErrorReply::from(&refusal));
            }
            Err(refusal) => return respond::error(ErrorReply::from(&refusal)),
        };
        let guard = RequestGuard::open(self.app.clone(), arrival, &principal, target.endpoint());
        let mut guard = Some(guard);
        let account = principal.account.id;
        let serving = async {
            principal.check(arrival.at)?;
            match target {
                Target::Chat => {
                    self.ask(&principal, ModelEndpoint::Chat, &head.headers, incoming, &mut guard)
                        .await
                }
                Target::Responses => {
                    let ask = ModelEndpoint::Responses(client_kind(&head.headers));
                    self.ask(&principal, ask, &head.headers, incoming, &mut guard).await
                }
                Target::WebSocket => Err(Refusal::WebSocket.into()),
                Target::Stored(id) => {
                    let query = head.uri.query();
                    Ok(stored::retrieve(&self.app, &self.stored, account, id, query).await?)
                }
                Target::Delete(id) => Ok(stored::delete(&self.app, account, id).await?),
                Target::InputItems(id) => {
                    let query = head.uri.query();
                    Ok(stored::input_items(&self.app, &self.stored, account, id, query).await?)
                }
                Target::Models => Ok(models::list(&self.app, &principal, head.uri.query())),
                Target::Model(name) => Ok(models::retrieve(&self.app, &principal, &name)?),
                Target::WrongMethod(allowed) => {
                    let method = head.method.to_string();
                    Err(Refusal::MethodNotAllowed { method, allowed }.into())
                }
                Target::Unknown => Err(Refusal::UnknownUrl { path: shown(path) }.into()),
            }
        };
        let outcome = {
            let mut serving = pin!(serving);
            let next = poll_fn(|context| match serving.as_mut().poll(context) {
                // A change of phase wakes the task.
                Poll::Pending if self.shutdown.is_ending() => {
                    Poll::Ready(Err(Refusal::ShuttingDown.into()))
                }
                polled => polled,
            });
            next.await
        };
        let response = conclude(outcome, guard);
        if response.body().is_whole() {
            // A stream waits at its end. A failed sync is logged and does not hold back an answer.
            _ = self.app.ledger.synced().await;
        }
        response
    }

    /// Returns whether requests should be sent here: not during a drain, and not while they cannot be
    /// recorded.
    fn readiness(&self) -> Response<Reply> {
        if !self.shutdown.is_ready() {
            return health(false);
        }
        match self.app.ledger.write_failure() {
            None => health(true),
            Some(failure) => {
                let body = json!({ "status": "unavailable", "reason": failure.to_string() });
                let mut response = respond::json(body.to_string());
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }
        }
    }

    async fn ask(
        &self,
        principal: &Principal,
        ask: ModelEndpoint,
        headers: &HeaderMap,
        incoming: Incoming,
        guard: &mut Option<RequestGuard>,
    ) -> Result<Response<Reply>, Fault> {
        let account = principal.account.id;
        let take_place = || admit::receive(&self.app, principal);
        let body = self.bodies.receive(headers, incoming, account, take_place).await?;
        serve(&self.app, principal, ask, headers, body, guard).await.map(respond::answer)
    }
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

/// Builds the response, and closes the guard unless the answer owns it or has closed it.
fn conclude(
    outcome: Result<Response<Reply>, Fault>,
    guard: Option<RequestGuard>,
) -> Response<Reply> {
    match outcome {
        Ok(response) => {
            if let Some(guard) = guard {
                let http_status = Some(response.status().as_u16());
                let status = RequestStatus::Completed;
                guard.close(RequestOutcome { status, http_status, error_code: None });
            }
            response
        }
        Err(fault) => {
            let mut reply = ErrorReply::from(&fault);
            if let Some(guard) = guard {
                reply.show(guard.standing());
                guard.fail(&fault, reply.end(&fault));
            }
            respond::error(reply)
        }
    }
}

/// Codex identifies itself in one of two headers.
fn client_kind(headers: &HeaderMap) -> ClientKind {
    let is_codex = |name: HeaderName| {
        let value = headers.get(name).map(http::HeaderValue::as_bytes).unwrap_or_default();
        value.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"codex"))
    };
    if is_codex(HeaderName::from_static("originator")) || is_codex(USER_AGENT) {
        ClientKind::Codex
    } else {
        ClientKind::Other
    }
}

fn target<'a>(method: &Method, path: &'a str, headers: &HeaderMap) -> Target<'a> {
    match path {
        "/v1/chat/completions" if method == Method::POST => Target::Chat,
        "/v1/responses" if method == Method::POST => Target::Responses,
        "/v1/responses" if headers.contains_key(UPGRADE) => Target::WebSocket,
        "/v1/chat/completions" | "/v1/responses" => Target::WrongMethod("POST"),
        "/v1/models" if method == Method::GET => Target::Models,
        "/v1/models" => Target::WrongMethod("GET"),
        _ if let Some(rest) = path.strip_prefix("/v1/responses/") => stored_target(method, rest),
        _ => match path.strip_prefix("/v1/models/") {
            // Clients may write the slash of `vendor/model` literally or as %2F.
            Some(name) if !name.is_empty() && method == Method::GET => {
                Target::Model(percent_decode_str(name).decode_utf8_lossy())
            }
            Some(name) if !name.is_empty() => Target::WrongMethod("GET"),
            _ => Target::Unknown,
        },
    }
}

/// Returns the endpoint of a stored response.
fn stored_target<'a>(method: &Method, rest: &'a str) -> Target<'a> {
    match rest.split_once('/') {
        None if rest.is_empty() => Target::Unknown,
        None if method == Method::GET => Target::Stored(rest),
        None if method == Method::DELETE => Target::Delete(rest),
        None => Target::WrongMethod("GET, DELETE"),
        Some((id, "input_items")) if method == Method::GET => Target::InputItems(id),
        Some((_, "input_items")) => Target::WrongMethod("GET"),
        Some(_) => Target::Unknown,
    }
}

impl Target<'_> {
    const fn endpoint(&self) -> Endpoint {
        match self {
            Self::Chat => Endpoint::ChatCompletions,
            Self::Responses | Self::WebSocket => Endpoint::Responses,
            Self::Stored(_) | Self::Delete(_) | Self::InputItems(_) => Endpoint::Response,
            Self::Models => Endpoint::Models,
            Self::Model(_) => Endpoint::Model,
            Self::WrongMethod(_) | Self::Unknown => Endpoint::Other,
        }
    }
}

/// Returns the part of a path that an error repeats.
fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}
