//! Serves a model request from its body on, for both endpoints.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use super::answer::Answer;
use super::authenticate::Principal;
use super::drain::{Drain, Work};
use super::failed_request::FailedRequest;
use super::open_request::OpenRequest;
use super::outcome::RequestOutcome;
use super::replay::{self, AnswerRecorder, ReplayDecision};
use super::responses::{self, ClientKind};
use super::{AppState, chat};
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

/// Serves one request, or replays the answer of an earlier attempt.
///
/// # Errors
/// The request was refused, or no upstream answered it. The caller reports the fault and closes the request.
pub async fn serve(
    app: &Arc<AppState>,
    principal: &Principal,
    endpoint: ModelEndpoint,
    headers: &HeaderMap,
    body: Bytes,
    mut open: Box<OpenRequest>,
) -> Result<Answer, Box<FailedRequest>> {
    let attempt =
        replay::begin(app, principal, endpoint.endpoint(), headers, &body, &mut open).await;
    let recorder = match attempt {
        Ok(ReplayDecision::First(recorder)) => recorder,
        Ok(ReplayDecision::Replayed(recorded)) => {
            endpoint.note(&body, &mut open);
            open.close(RequestOutcome::completed());
            return Ok(Answer::Replayed(recorded));
        }
        Err(refusal) => {
            endpoint.note(&body, &mut open);
            return Err(FailedRequest::before_forwarding(open, refusal));
        }
    };
    match principal.key.client_gone {
        ClientGone::Cancel => answer(app, principal, endpoint, body, recorder, open).await,
        ClientGone::Drain(limit) => {
            let (drain, work) = draining(app, principal, endpoint, body, recorder, open, limit);
            drain.serve(work).await
        }
    }
}

/// A request that continues for up to `limit` without its client. It is separate from [`serve`], because its
/// future would take space in that of every request.
fn draining(
    app: &Arc<AppState>,
    principal: &Principal,
    endpoint: ModelEndpoint,
    body: Bytes,
    recorder: Option<Box<AnswerRecorder>>,
    mut open: Box<OpenRequest>,
    limit: Duration,
) -> (Drain, Work) {
    let (app, principal) = (app.clone(), principal.clone());
    let drain = Drain::new(app.clone(), open.id(), open.client_disconnected_handle(), limit);
    let work = async move { answer(&app, &principal, endpoint, body, recorder, open).await };
    (drain, Box::pin(work))
}

/// Serves a request that is not a retry.
async fn answer(
    app: &Arc<AppState>,
    principal: &Principal,
    endpoint: ModelEndpoint,
    body: Bytes,
    recorder: Option<Box<AnswerRecorder>>,
    open: Box<OpenRequest>,
) -> Result<Answer, Box<FailedRequest>> {
    let mut answer = match endpoint {
        ModelEndpoint::Chat => chat::chat(app, principal, body, open).await?,
        ModelEndpoint::Responses(client) => {
            Box::pin(responses::responses(app, principal, client, body, open)).await?
        }
    };
    if let Some(recorder) = recorder {
        answer.record(recorder);
    }
    Ok(answer)
}

impl ModelEndpoint {
    /// Returns the endpoint for the record.
    pub const fn endpoint(self) -> Endpoint {
        match self {
            Self::Chat => Endpoint::ChatCompletions,
            Self::Responses(_) => Endpoint::Responses,
        }
    }

    /// Records the request parameters of a request that is not served.
    fn note(self, body: &Bytes, open: &mut OpenRequest) {
        match self {
            Self::Chat => {
                if let Ok(request) = ChatRequest::peek(body) {
                    open.set_request(request.stream, &request.model);
                }
            }
            Self::Responses(_) => {
                if let Ok(request) = Request::parse(body) {
                    open.set_request(request.stream, &request.model);
                }
            }
        }
    }
}
