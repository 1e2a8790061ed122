//! The simulator: the built-in chat upstream (`sim:`), for trials, docs, tests and fault drills.
//!
//! A small chat-completions server with deterministic answers, faults on demand of a script in the
//! request (`script.rs`), and a [`TruthLog`]. Its only other state is the number of times that a
//! fault with `times` has occurred. It reads no clock, uses no randomness, and
//! must not import other crates of this workspace, in particular `wire`: its interpretation of a
//! request must be independent of the gateway's. Start at [`Simulator::serve`], then `answer.rs`.

mod answer;
mod body;
mod cut;
mod drill;
mod frames;
mod pairs;
mod rejection;
mod request;
mod schema;
mod script;
#[cfg(test)]
mod tests;
mod text;
mod truth;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use self::body::{Body, Step};
use self::cut::{CutHandle, CuttableIo};
use self::drill::Drills;
use self::frames::{Envelope, Streaming};
use self::rejection::Rejection;
pub use self::request::CONTEXT_WINDOW;
use self::request::ChatRequest;
pub use self::truth::{RequestEnd, TruthEntry, TruthLog};

/// The maximum size of a request body.
const MAX_REQUEST_BYTES: usize = 64 << 20;
/// The listed models. Every name that begins with `sim` is served.
const MODELS: [&str; 2] = ["sim-chat", "sim-reasoner"];

/// The built-in chat upstream. Cheap to clone; clones share the truth log.
#[derive(Clone, Debug)]
pub struct Simulator(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    drills: Drills,
}

/// The settings of a simulator.
#[derive(Debug)]
pub struct Settings {
    /// The seed of the generated text.
    pub seed: u64,
    /// The log of requests and answers.
    pub truth: TruthLog,
}

impl Simulator {
    /// Creates a simulator.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Inner { settings, drills: Drills::default() }))
    }

    /// Serves one connection, HTTP/1.1 or HTTP/2 with prior knowledge, until the client closes it or violates the
    /// protocol, or a script cuts it. Only HTTP/2 needs a task for each request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the connection.
    pub async fn serve<I>(&self, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let cut_handle = CutHandle::default();
        let io = TokioIo::new(CuttableIo::new(io, cut_handle.clone()));
        let simulator = self.clone();
        let service = service_fn(move |request| {
            let (simulator, cut_handle) = (simulator.clone(), cut_handle.clone());
            async move { simulator.respond(request, cut_handle).await }
        });
        let server = auto::Builder::new(TokioExecutor::new());
        if let Err(error) = server.serve_connection(io, service).await {
            tracing::debug!(%error, "a connection to the simulator broke");
        }
    }

    /// Returns the log of requests and answers.
    pub fn truth(&self) -> &TruthLog {
        &self.0.settings.truth
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        cut_handle: CutHandle,
    ) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path();
        let path = path.strip_prefix("/v1").unwrap_or(path);
        let (status, message) = match (path, request.method()) {
            ("/chat/completions", &Method::POST) => {
                return Ok(self.chat(request, cut_handle).await);
            }
            ("/models", &Method::GET) => return Ok(json_response(StatusCode::OK, &models())),
            ("/chat/completions" | "/models", _) => {
                (StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here")
            }
            _ => (StatusCode::NOT_FOUND, "there is nothing at this path"),
        };
        Ok(reject(&Rejection::new(status, None, message)))
    }

    async fn chat(&self, request: Request<Incoming>, cut_handle: CutHandle) -> Response<Body> {
        let id = request_id(request.headers());
        let body = match Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return reject(&Rejection::invalid(None, error.to_string())),
        };
        match ChatRequest::read(&body, self.0.settings.seed) {
            Ok(mut chat) => {
                if chat.script.times.is_some_and(|times| self.0.drills.is_over(chat.drill, times)) {
                    chat.script.clear_faults();
                }
                self.answer(chat, id, cut_handle).await
            }
            Err(rejection) => {
                let model = model_of(&body);
                let entry = TruthEntry { id, model, ..TruthEntry::default() };
                self.truth().start(entry).end(RequestEnd::Error);
                reject(&rejection)
            }
        }
    }

    async fn answer(
        &self,
        chat: ChatRequest,
        id: Option<String>,
        cut_handle: CutHandle,
    ) -> Response<Body> {
        let answer = answer::answer(&chat);
        let mut record = self.truth().start(TruthEntry {
            id,
            model: chat.model.clone(),
            stream: chat.stream,
            prompt_tokens: answer.usage.prompt,
            completion_tokens_whole: answer.usage.completion,
            ..TruthEntry::default()
        });
        let script = &chat.script;
        // Even a zero sleep takes until the next tick of the timer.
        if !script.latency.is_zero() {
            tokio::time::sleep(script.latency).await;
        }
        if let Some(status) = script.status {
            record.end(RequestEnd::Error);
            return reject(&Rejection::scripted(status, script.retry_after));
        }

        let envelope =
            Envelope { id: format!("chatcmpl-sim-{:016x}", chat.digest), model: chat.model };
        let mut response = Response::new(());
        let headers = response.headers_mut();
        if chat.stream {
            let usage = script.usage && chat.include_usage;
            let streaming = Streaming { chunk: script.chunk, usage, done: script.done };
            let steps = body::of_stream(frames::stream(envelope, &answer, streaming), script);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            response.map(|()| body::play(steps, record, cut_handle))
        } else {
            let frame = frames::plain(&envelope, &answer, script.usage);
            let full_length = frame.data.len();
            let steps = body::of_plain(frame, script);
            // A body that is cut or stalls announces its full length.
            let length = match &steps[..] {
                [Step::Send(frame) | Step::Fail(frame)] => frame.data.len(),
                _ => full_length,
            };
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            response.map(|()| body::play(steps.into_iter(), record, cut_handle))
        }
    }
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-request-id")?;
    Some(String::from_utf8_lossy(id.as_bytes()).into_owned())
}

/// Returns the model of an invalid request, for the truth log.
fn model_of(body: &Bytes) -> String {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    request["model"].as_str().unwrap_or_default().to_owned()
}

fn models() -> Value {
    let models = MODELS
        .map(|id| json!({ "id": id, "object": "model", "created": 0, "owned_by": "tollgate" }));
    json!({ "object": "list", "data": models })
}

fn reject(rejection: &Rejection) -> Response<Body> {
    let mut response = json_response(rejection.status, &rejection.body());
    if let Some(seconds) = rejection.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Full::from(body.to_string()).boxed_unsync());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
