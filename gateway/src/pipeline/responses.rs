//! `POST /v1/responses`: the phases of a Responses request, which goes upstream as a chat request.

use std::sync::Arc;

use super::admit::{AdmissionRequest, AdmittedRequest};
use super::answer::Answer;
use super::authenticate::Principal;
use super::count::{InputSize, InputText};
use super::failed_request::FailedRequest;
use super::forward;
use super::meter::Meter;
use super::open_request::OpenRequest;
use super::outcome::RequestOutcome;
use super::plain_answer::{self, PlainAnswer};
use super::recall::{Recalled, recall};
use super::relay::{PendingAnswer, Relay};
use super::request_copies::RequestCopies;
use super::responses_adapter::{self, ResponseToStore, ResponsesAdapter};
use super::stream_adapter::StreamAdapter;
use super::translations::Translations;
use super::{AppState, Fault, admit, rate_limit_headers};
use crate::clock::Clock;
use crate::ledger::RequestSize;
use crate::memory_budget::MemoryGuard;
use crate::response_store::ResponseStore;
use crate::secrets::seal::AccountSealer;
use crate::upstream::UpstreamError;
use bytes::Bytes;
use domain::key::Translation;
use domain::model::Model;
use domain::refusal::Refusal;
use domain::response::{parse_response_id, response_id};
use domain::wire::chunk::AnswerForm;
use domain::wire::usage::AnswerUsage;
use http::HeaderMap;
use translate::answer::{self, Envelope, KeepAlive, ResponseStream};
use translate::plan::{ReasoningOutput, ReasoningSealer, ResponsePlan};
use translate::request::Request;

/// How Responses requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsesPolicy {
    /// Whether `data: [DONE]` follows the last event of a stream (`S-4`).
    pub done_marker: bool,
    /// The keep-alive of a silent stream (§5.9).
    pub keep_alive: KeepAliveMode,
    /// Where reasoning is shown (`S-9`).
    pub reasoning: ReasoningOutput,
}

/// The keep-alive of a silent stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAliveMode {
    /// An event for [`ClientKind::Codex`], which does not reset its timer on comments; a comment for others.
    Auto,
    /// A comment.
    Comment,
    /// A `keepalive` event.
    Event,
}

/// The kind of client, as far as it makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Codex.
    Codex,
    /// Any other.
    Other,
}

/// A request that may be admitted.
struct Prepared<'a> {
    request: Request<'a>,
    model: Arc<Model>,
    /// `None` if responses are not stored.
    recalled: Option<Recalled>,
    copies: RequestCopies,
    size: RequestSize,
}

/// An admitted request in the upstreams' dialects, and what its answer is built from.
struct ResponsesExchange {
    translations: Translations,
    /// The memory of the translations.
    copies: RequestCopies,
    plan: Arc<ResponsePlan>,
    envelope: Envelope,
    /// `None` if the response is not stored.
    to_store: Option<ResponseToStore>,
}

/// A plain answer that is translated.
struct PlainResponse {
    plan: Arc<ResponsePlan>,
    envelope: Envelope,
    to_store: Option<ResponseToStore>,
    clock: Arc<dyn Clock>,
}

/// Serves one Responses request.
///
/// # Errors
/// The request was refused, or no upstream answered it.
pub async fn responses(
    app: &Arc<AppState>,
    principal: &Principal,
    client: ClientKind,
    body: Bytes,
    mut open: Box<OpenRequest>,
) -> Result<Answer, Box<FailedRequest>> {
    let prepared = match prepare(app, principal, &body, &mut open).await {
        Ok(prepared) => prepared,
        Err(refusal) => return Err(FailedRequest::before_forwarding(open, refusal)),
    };
    let Prepared { request, model, recalled, size, .. } = &prepared;
    let (model, stream) = (model.clone(), request.stream);
    let input = || InputText::of(&body, recalled.iter().flat_map(Recalled::texts));
    let asked = AdmissionRequest { principal, model: &model, size, input: &input };
    let mut admitted = admit::admit(app, asked, open).await?;
    let exchange = match ResponsesExchange::new(app, principal, prepared, &admitted) {
        Ok(exchange) => exchange,
        Err(fault) => return Err(FailedRequest::before_forwarding(admitted.open, fault)),
    };
    let ResponsesExchange { translations, copies, plan, envelope, to_store } = exchange;
    if !stream {
        let begun = translations.forward(app, &model, false, admitted).await?;
        drop((translations, copies));
        let clock = app.clock.clone();
        let plain = PlainResponse { plan, envelope, to_store, clock };
        return plain_answer::answer(begun, plain).await;
    }
    let mut headers = HeaderMap::new();
    forward::report_in(&mut headers, &plan.report);
    rate_limit_headers::insert(&mut headers, admitted.open.limit_status());
    let keep_alive = app.responses_policy.keep_alive_for(client);
    let translation = ResponseStream::new(&envelope, plan);
    let translation = ResponsesAdapter::new(translation, keep_alive, to_store, app.clock.clone());
    let adapter = StreamAdapter::Responses(Box::new(translation));
    let id = admitted.open.id();
    let head_sent = admitted.open.head_sent_handle();
    let drop_outcome = admitted.open.drop_outcome();
    let syncing = app.ledger.syncing();
    let app = app.clone();
    let forwarding = async move {
        let _copies = copies;
        translations.forward(&app, &model, true, admitted).await
    };
    let forwarding = Box::pin(forwarding);
    let pending = PendingAnswer { forwarding, id, head_sent, drop_outcome, syncing };
    Answer::begin_stream(Relay::waiting(pending, adapter, headers)).await
}

/// Parses the request, finds its model, and loads what it continues.
///
/// # Errors
/// The request is malformed, its key may not use the model, or an earlier response cannot be read.
async fn prepare<'a>(
    app: &AppState,
    principal: &Principal,
    body: &'a Bytes,
    open: &mut OpenRequest,
) -> Result<Prepared<'a>, Refusal> {
    let request = Request::parse(body)?;
    open.set_request(request.stream, &request.model);
    let model = admit::find_model(app, principal, &request.model)?;
    let mut copies = RequestCopies::new(app, principal.account.id);
    let body_bytes = body.len();
    let mut recalled = recall(app, principal, &request, &mut copies, &model, body_bytes).await?;
    let recalled_bytes = recalled.as_ref().map_or(0, |recalled| recalled.bytes);
    let text_bytes = body_bytes + usize::try_from(recalled_bytes).unwrap_or(usize::MAX / 2);
    if !copies.try_take(text_bytes, &model) {
        // Read again, because what was read would occupy memory while the request waits.
        drop(recalled.take());
        copies.take(text_bytes, &model).await?;
        recalled = recall(app, principal, &request, &mut copies, &model, body_bytes).await?;
    }
    let sizes = InputSize::of(body, recalled.iter().flat_map(Recalled::texts));
    let size = RequestSize {
        input_bytes: sizes.text_bytes,
        media_tokens: sizes.media_tokens,
        max_output: request.max_output_tokens,
        choices: 1,
        stream: request.stream,
    };
    Ok(Prepared { request, model, recalled, copies, size })
}

/// Returns the input of the request as a JSON array of items.
fn input_items(request: &Request<'_>, recalled: &Recalled, seed: u128) -> Arc<str> {
    let items = request.input_items(seed, &recalled.references);
    let items: Vec<_> = items.iter().map(|item| item.json.get()).collect();
    format!("[{}]", items.join(",")).into()
}

fn response_to_store(
    responses: &Arc<ResponseStore>,
    principal: &Principal,
    request: &Request<'_>,
    input: Arc<str>,
    memory: MemoryGuard,
    open: &OpenRequest,
) -> Result<ResponseToStore, Refusal> {
    if responses.is_behind(principal.account.id) {
        return Err(Refusal::RecorderBehind);
    }
    Ok(ResponseToStore {
        responses: responses.clone(),
        id: open.id(),
        account: principal.account.id,
        previous: request.previous_response_id.as_deref().and_then(parse_response_id),
        created_at: open.arrived_at(),
        input,
        memory,
    })
}

// === impl ResponsesPolicy ===

impl ResponsesPolicy {
    fn keep_alive_for(self, client: ClientKind) -> KeepAlive {
        match (self.keep_alive, client) {
            (KeepAliveMode::Auto, ClientKind::Codex) => KeepAlive::InProgress,
            (KeepAliveMode::Auto, ClientKind::Other) | (KeepAliveMode::Comment, _) => {
                KeepAlive::Comment
            }
            (KeepAliveMode::Event, _) => KeepAlive::Event,
        }
    }
}

// === impl ResponsesExchange ===

impl ResponsesExchange {
    /// Translates an admitted request, and prepares its answer.
    ///
    /// # Errors
    /// No upstream can serve the request, its key refuses the cap that it needs, or it cannot be stored.
    fn new(
        app: &AppState,
        principal: &Principal,
        prepared: Prepared<'_>,
        admitted: &AdmittedRequest,
    ) -> Result<Self, Fault> {
        let Prepared { request, model, recalled, mut copies, size } = prepared;
        let open = &admitted.open;
        if let Some(cap) = admitted.output_cap()
            && principal.key.translation == Translation::Strict
        {
            return Err(Refusal::OutputCapTooHigh { cap }.into());
        }
        let sealer: Arc<dyn ReasoningSealer> =
            Arc::new(AccountSealer::new(app.sealer.clone(), principal.account.id));
        let cap = admitted.cap_to_send(&model, &size);
        let recalled = recalled.as_ref();
        let translations =
            Translations::new(app, principal, &request, recalled, &model, cap, &*sealer);
        let translated = translations.first()?;
        let plan = translated.plan.clone();
        let mut seed = [0; 16];
        app.entropy.fill(&mut seed);
        let seed = u128::from_ne_bytes(seed);
        let envelope = Envelope {
            id: response_id(open.id()),
            created_at: open.arrived_at().as_second(),
            seed,
            done_marker: app.responses_policy.done_marker,
            sealer,
        };
        let to_store = match (&app.response_store, recalled) {
            (Some(responses), Some(recalled)) if translated.store => {
                let input = input_items(&request, recalled, seed);
                let memory = copies.split_off(input.len());
                Some(response_to_store(responses, principal, &request, input, memory, open)?)
            }
            _ => None,
        };
        Ok(Self { translations, copies, plan, envelope, to_store })
    }
}

// === impl PlainResponse ===

impl PlainAnswer for PlainResponse {
    type Checked = answer::WholeAnswer;

    fn check(&self, json: &str, meter: &mut Meter) -> Result<answer::WholeAnswer, UpstreamError> {
        answer::parse_whole(json, &self.envelope, self.plan.clone(), |view| {
            meter.observe(view, AnswerForm::Plain);
        })
        .map_err(responses_adapter::violation)
    }

    fn finish(
        self,
        checked: answer::WholeAnswer,
        _: Bytes,
        usage: AnswerUsage,
        _: &Meter,
    ) -> (Bytes, RequestOutcome) {
        let now = self.clock.now().as_second();
        let outcome = responses_adapter::ended(checked.outcome());
        let object = checked.finish(answer::CompletionInfo { completed_at: now, usage });
        if let Some(to_store) = self.to_store {
            to_store.store(&object);
        }
        (object, outcome)
    }
}
