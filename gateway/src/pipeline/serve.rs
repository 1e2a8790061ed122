//! A model request from its body on, whichever endpoint it came to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use super::authenticate::Principal;
use super::drain::{Drain, Work};
use super::relay::Answer;
use super::replay::{self, Attempt, Keeper};
use super::responses::{self, ClientKind};
use super::tally::Tally;
use super::{Fault, Gate, chat};
use domain::endpoint::Endpoint;
use domain::key::ClientGone;
use domain::wire::chat::ChatRequest;
use translate::request::Request;

/// What is asked of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses(ClientKind),
}

/// Serves one request, or gives it the answer of an earlier attempt. On an error the caller answers it
/// and closes the tally.
///
/// # Errors
/// The request was refused, or no upstream answered it.
pub async fn serve(
    gate: &Arc<Gate>,
    principal: &Principal,
    ask: Ask,
    headers: &HeaderMap,
    body: Bytes,
    tally: &mut Option<Tally>,
) -> Result<Answer, Fault> {
    let open = tally.as_mut().expect("a request has a tally until it is answered");
    let attempt = replay::begin(gate, principal, ask.endpoint(), headers, &body, open).await;
    let keeper = match attempt {
        Ok(Attempt::First(keeper)) => keeper,
        Ok(Attempt::Again(kept)) => {
            ask.note(&body, open);
            return Ok(Answer::Again(kept));
        }
        Err(refusal) => {
            ask.note(&body, open);
            return Err(refusal.into());
        }
    };
    match principal.key.client_gone {
        ClientGone::Cancel => answer(gate, principal, ask, body, keeper, tally).await,
        ClientGone::Drain(limit) => {
            let (drain, work) = draining(gate, principal, ask, body, keeper, tally, limit);
            drain.serve(work, tally).await
        }
    }
}

/// A request that goes on for up to `limit` without its client, and all that it has to do: apart from
/// [`serve`], whose state would have room for it in every request.
fn draining(
    gate: &Arc<Gate>,
    principal: &Principal,
    ask: Ask,
    body: Bytes,
    keeper: Option<Box<Keeper>>,
    tally: &mut Option<Tally>,
    limit: Duration,
) -> (Drain, Work) {
    let (gate, principal, mut open) = (gate.clone(), principal.clone(), tally.take());
    let presence = open.as_mut().expect("open until it is answered").presence();
    let drain = Drain::new(gate.clone(), presence, limit);
    let work = async move {
        let answer = answer(&gate, &principal, ask, body, keeper, &mut open).await;
        (answer, open)
    };
    (drain, Box::pin(work))
}

/// Serves a request that is no retry.
async fn answer(
    gate: &Arc<Gate>,
    principal: &Principal,
    ask: Ask,
    body: Bytes,
    keeper: Option<Box<Keeper>>,
    tally: &mut Option<Tally>,
) -> Result<Answer, Fault> {
    let mut answer = match ask {
        Ask::Chat => chat::chat(gate, principal, body, tally).await?,
        Ask::Responses(client) => {
            Box::pin(responses::responses(gate, principal, client, body, tally)).await?
        }
    };
    if let Some(keeper) = keeper {
        keeper.keep(&mut answer);
    }
    Ok(answer)
}

impl Ask {
    const fn endpoint(self) -> Endpoint {
        match self {
            Self::Chat => Endpoint::ChatCompletions,
            Self::Responses(_) => Endpoint::Responses,
        }
    }

    /// Notes what a request asked for that is not served.
    fn note(self, body: &Bytes, tally: &mut Tally) {
        match self {
            Self::Chat => {
                if let Ok(request) = ChatRequest::peek(body) {
                    tally.asked(request.stream, &request.model);
                }
            }
            Self::Responses(_) => {
                if let Ok(request) = Request::parse(body) {
                    tally.asked(request.stream, &request.model);
                }
            }
        }
    }
}
