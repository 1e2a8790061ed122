//! Serves a model request from its body on, for both endpoints.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use super::authenticate::Principal;
use super::drain::{Drain, Work};
use super::relay::Answer;
use super::replay::{self, AnswerRecorder, Attempt};
use super::request_guard::RequestGuard;
use super::responses::{self, ClientKind};
use super::{AppState, Fault, chat};
use domain::endpoint::Endpoint;
use domain::key::ClientGone;
use domain::wire::chat::ChatRequest;
use translate::request::Request;

/// The endpoint of a model request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelEndpoint {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses(ClientKind),
}

/// Serves one request, or replays the answer of an earlier attempt. On an error, the caller sends the error
/// and closes the guard.
///
/// # Errors
/// The request was refused, or no upstream answered it.
pub async fn serve(
    app: &Arc<AppState>,
    principal: &Principal,
    ask: ModelEndpoint,
    headers: &HeaderMap,
    body: Bytes,
    guard: &mut Option<RequestGuard>,
) -> Result<Answer, Fault> {
    let open = guard.as_mut().expect("a request has a guard until it is answered");
    let attempt = replay::begin(app, principal, ask.endpoint(), headers, &body, open).await;
    let keeper = match attempt {
        Ok(Attempt::First(keeper)) => keeper,
        Ok(Attempt::Replayed(kept)) => {
            ask.note(&body, open);
            return Ok(Answer::Replayed(kept));
        }
        Err(refusal) => {
            ask.note(&body, open);
            return Err(refusal.into());
        }
    };
    match principal.key.client_gone {
        ClientGone::Cancel => answer(app, principal, ask, body, keeper, guard).await,
        ClientGone::Drain(limit) => {
            let (drain, work) = draining(app, principal, ask, body, keeper, guard, limit);
            drain.serve(work, guard).await
        }
    }
}

/// A request that continues for up to `limit` without its client. It is separate from [`serve`], because its
/// future would take space in that of every request.
fn draining(
    app: &Arc<AppState>,
    principal: &Principal,
    ask: ModelEndpoint,
    body: Bytes,
    keeper: Option<Box<AnswerRecorder>>,
    guard: &mut Option<RequestGuard>,
    limit: Duration,
) -> (Drain, Work) {
    let (app, principal, mut open) = (app.clone(), principal.clone(), guard.take());
    let presence = open.as_mut().expect("open until it is answered").presence();
    let drain = Drain::new(app.clone(), presence, limit);
    let work = async move {
        let answer = answer(&app, &principal, ask, body, keeper, &mut open).await;
        (answer, open)
    };
    (drain, Box::pin(work))
}

/// Serves a request that is not a retry.
async fn answer(
    app: &Arc<AppState>,
    principal: &Principal,
    ask: ModelEndpoint,
    body: Bytes,
    keeper: Option<Box<AnswerRecorder>>,
    guard: &mut Option<RequestGuard>,
) -> Result<Answer, Fault> {
    let mut answer = match ask {
        ModelEndpoint::Chat => chat::chat(app, principal, body, guard).await?,
        ModelEndpoint::Responses(client) => {
            Box::pin(responses::responses(app, principal, client, body, guard)).await?
        }
    };
    if let Some(keeper) = keeper {
        keeper.keep(&mut answer);
    }
    Ok(answer)
}

impl ModelEndpoint {
    const fn endpoint(self) -> Endpoint {
        match self {
            Self::Chat => Endpoint::ChatCompletions,
            Self::Responses(_) => Endpoint::Responses,
        }
    }

    /// Records the request parameters of a request that is not served.
    fn note(self, body: &Bytes, guard: &mut RequestGuard) {
        match self {
            Self::Chat => {
                if let Ok(request) = ChatRequest::peek(body) {
                    guard.set_request(request.stream, &request.model);
                }
            }
            Self::Responses(_) => {
                if let Ok(request) = Request::parse(body) {
                    guard.set_request(request.stream, &request.model);
                }
            }
        }
    }
}
