//! `POST /v1/responses`: the phases of a Responses request, which goes upstream as a chat request.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;

use super::admit::{AdmissionRequest, AdmittedRequest};
use super::answer::Answer;
use super::authenticate::Principal;
use super::count::{InputSize, InputText};
use super::failed_request::FailedRequest;
use super::forward::{self, BegunAnswer, ForwardError, Outgoing};
use super::meter::Meter;
use super::open_request::OpenRequest;
use super::outcome::RequestOutcome;
use super::plain_answer::{self, PlainAnswer};
use super::relay::{PendingAnswer, Relay};
use super::request_copies::RequestCopies;
use super::responses_adapter::{self, ResponseToStore, ResponsesAdapter};
use super::stream_adapter::StreamAdapter;
use super::{AppState, Fault, admit, rate_limit_headers};
use crate::clock::Clock;
use crate::ledger::Size;
use crate::memory_budget::MemoryGuard;
use crate::secrets::seal::AccountSealer;
use crate::state::{Limit, State, StateError};
use crate::upstream::UpstreamError;
use domain::key::Translation;
use domain::model::{Ability, Model};
use domain::refusal::{Refusal, RequestFault};
use domain::response::{parse_response_id, response_id};
use domain::upstream::Profile;
use domain::wire::chunk::AnswerForm;
use domain::wire::conversation::ConversationKey;
use domain::wire::usage::AnswerUsage;
use translate::answer::{self, Envelope, KeepAlive, ResponseStream};
use translate::dialect::Dialect;
use translate::plan::{ReasoningOutput, ReasoningSealer, ResponsePlan};
use translate::request::{
    HostedTools, InputModalities, Request, StoredHistory, TranslateOptions, TranslatedRequest,
};

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

/// What a request continues.
#[derive(Default)]
struct Recalled {
    items: Vec<Box<RawValue>>,
    references: HashMap<String, Box<RawValue>>,
    /// The total length in bytes; items referenced several times count each time.
    bytes: u64,
}

impl Recalled {
    /// Returns the items that the request continues and references, each as JSON.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let items = self.items.iter().chain(self.references.values());
        items.map(|item| item.get())
    }
}

/// A request in the dialect of each upstream that may serve it.
struct Translations {
    by_profile: Vec<(Profile, Result<TranslatedRequest, Refusal>)>,
    /// The cap on the output that is sent upstream, in tokens, if the client set none or a higher one; see
    /// [`AdmittedRequest::cap_to_send`].
    cap: Option<u64>,
    /// The key of the conversation, if the client has named it.
    named_conversation: Option<ConversationKey>,
}

/// A request that may be admitted.
struct Prepared<'a> {
    request: Request<'a>,
    model: Arc<Model>,
    /// `None` if responses are not stored.
    recalled: Option<Recalled>,
    copies: RequestCopies,
    size: Size,
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
    mut open: OpenRequest,
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
    let mut recalled = recall(app, principal, &request).await?;
    let recalled_bytes = recalled.as_ref().map_or(0, |recalled| recalled.bytes);
    let text_bytes = body.len() + usize::try_from(recalled_bytes).unwrap_or(usize::MAX / 2);
    if !copies.try_take(text_bytes, &model) {
        // Read again, because what was read would occupy memory while the request waits.
        drop(recalled.take());
        copies.take(text_bytes, &model).await?;
        recalled = recall(app, principal, &request).await?;
    }
    let sizes = InputSize::of(body, recalled.iter().flat_map(Recalled::texts));
    let size = Size {
        input_bytes: sizes.text_bytes,
        media_tokens: sizes.media_tokens,
        max_output: request.max_output_tokens,
        choices: 1,
        stream: request.stream,
    };
    Ok(Prepared { request, model, recalled, copies, size })
}

/// Loads what the request continues and references.
async fn recall(
    app: &AppState,
    principal: &Principal,
    request: &Request<'_>,
) -> Result<Option<Recalled>, Refusal> {
    let Some(state) = &app.response_store else { return Ok(None) };
    let account = principal.account.id;
    let mut recalled = Recalled::default();
    if let Some(text) = request.previous_response_id.as_deref() {
        let id = parse_response_id(text).ok_or_else(|| not_found(text))?;
        recalled.items = state
            .chain(account, id, app.max_chain_bytes)
            .await
            .map_err(|error| unrecalled(error, "previous_response_id"))?;
    }
    let references: Vec<_> = request.references().map(str::to_owned).collect();
    if !references.is_empty() {
        recalled.references = state
            .items(account, references, app.max_chain_bytes)
            .await
            .map_err(|error| unrecalled(error, "input"))?;
    }
    let referred = request.references().filter_map(|id| recalled.references.get(id));
    recalled.bytes =
        recalled.items.iter().chain(referred).map(|item| item.get().len() as u64).sum();
    if recalled.bytes > app.max_chain_bytes {
        let limit = Limit::Bytes(app.max_chain_bytes);
        return Err(unrecalled(StateError::TooLong(limit), "input"));
    }
    Ok(Some(recalled))
}

/// Returns the input of the request as a JSON array of items.
fn input_items(request: &Request<'_>, recalled: &Recalled, seed: u128) -> Arc<str> {
    let items = request.input_items(seed, &recalled.references);
    let items: Vec<_> = items.iter().map(|item| item.json.get()).collect();
    format!("[{}]", items.join(",")).into()
}

fn response_to_store(
    state: &Arc<State>,
    principal: &Principal,
    request: &Request<'_>,
    input: Arc<str>,
    memory: MemoryGuard,
    open: &OpenRequest,
) -> Result<ResponseToStore, Refusal> {
    if state.is_behind() {
        return Err(Refusal::RecorderBehind);
    }
    Ok(ResponseToStore {
        state: state.clone(),
        id: open.id(),
        account: principal.account.id,
        previous: request.previous_response_id.as_deref().and_then(parse_response_id),
        created_at: open.arrived_at(),
        input,
        memory,
    })
}

fn not_found(id: &str) -> Refusal {
    Refusal::invalid(
        RequestFault::PreviousResponseNotFound,
        Some("previous_response_id"),
        format!(
            "response `{}` was not found; send the whole conversation as `input`",
            id.escape_default()
        ),
    )
}

fn unrecalled(error: StateError, param: &str) -> Refusal {
    match error {
        StateError::NotFound(id) => not_found(&response_id(id)),
        StateError::TooLong(_) => {
            Refusal::invalid(RequestFault::InvalidValue, Some(param), error.to_string())
        }
        StateError::Store(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "cannot read stored responses");
            Refusal::StateUnavailable
        }
    }
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
            (Some(state), Some(recalled)) if translated.store => {
                let input = input_items(&request, recalled, seed);
                let memory = copies.split_off(input.len());
                Some(response_to_store(state, principal, &request, input, memory, open)?)
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

// === impl Translations ===

impl Translations {
    /// Translates the request for each upstream that the model is deployed on.
    fn new(
        app: &AppState,
        principal: &Principal,
        request: &Request<'_>,
        recalled: Option<&Recalled>,
        model: &Model,
        cap: Option<u64>,
        sealer: &dyn ReasoningSealer,
    ) -> Self {
        let (strict, hosted_tools) = match principal.key.translation {
            Translation::Lenient => (false, HostedTools::Refuse),
            Translation::Strict => (true, HostedTools::Refuse),
            Translation::OmitHostedTools => (false, HostedTools::Omit),
        };
        let catalogue = app.directory.catalogue();
        let mut by_profile = Vec::with_capacity(1);
        for deployment in &model.deployments {
            let Some(upstream) = catalogue.upstreams.get(&deployment.upstream) else { continue };
            if by_profile.iter().any(|(known, _)| *known == upstream.profile) {
                continue;
            }
            let dialect = Dialect::of(upstream.profile);
            let options = TranslateOptions {
                dialect,
                inputs: InputModalities::of(model, dialect),
                verbosity: model.abilities.contains(&Ability::Verbosity),
                strict,
                hosted_tools,
                reasoning: app.responses_policy.reasoning,
                sealer,
                history: match recalled {
                    Some(Recalled { items, references, .. }) => {
                        StoredHistory::Loaded { items, references }
                    }
                    None => StoredHistory::Disabled,
                },
            };
            by_profile.push((upstream.profile, request.translate(&options)));
        }
        let named = request.prompt_cache_key.as_deref().filter(|key| !key.is_empty());
        Self { by_profile, cap, named_conversation: named.map(ConversationKey::of_cache_key) }
    }

    /// Returns the key of the request's conversation.
    fn conversation(&self) -> Option<ConversationKey> {
        self.named_conversation.or_else(|| {
            let translated = self.first().ok()?;
            ConversationKey::of_chat(&translated.chat_body("", None))
        })
    }

    /// Returns the first translation that an upstream can serve.
    fn first(&self) -> Result<&TranslatedRequest, Fault> {
        let mut translated = self.by_profile.iter().map(|(_, translated)| translated);
        let Some(first) =
            translated.clone().find(|translated| translated.is_ok()).or(translated.next())
        else {
            return Err(
                UpstreamError::Misconfigured("the model has no deployment".to_owned()).into()
            );
        };
        first.as_ref().map_err(|refusal| refusal.clone().into())
    }

    fn of(&self, profile: Profile) -> Result<&TranslatedRequest, Refusal> {
        match self.by_profile.iter().find(|(known, _)| *known == profile) {
            Some((_, translated)) => translated.as_ref().map_err(Clone::clone),
            // The catalogue changed since it was read.
            None => Err(Refusal::CatalogueChanged),
        }
    }

    /// Sends the request to one deployment after the other, and reports the losses of the one that answers.
    async fn forward(
        &self,
        app: &AppState,
        model: &Model,
        stream: bool,
        admitted: AdmittedRequest,
    ) -> Result<BegunAnswer, ForwardError> {
        let account = admitted.open.account();
        let route = forward::route(app, model, || self.conversation());
        let mut begun = forward::forward(app, &route, stream, admitted, |upstream, target| {
            let body = self.of(upstream.profile)?.chat_body(&target.upstream_model, self.cap);
            let body = RequestCopies::count_body(app, account, body);
            Ok(Outgoing { body, edits: Vec::new() })
        })
        .await?;
        match self.of(begun.upstream_client.profile()) {
            Ok(translated) => begun.report(&translated.plan.report),
            Err(refusal) => {
                let (fault, request) = (refusal.into(), begun.request);
                return Err(ForwardError { fault, request });
            }
        }
        Ok(begun)
    }
}
