//! `POST /v1/responses`: the phases of a Responses request, which goes upstream as a chat request.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::poll_fn;
use http::HeaderMap;
use serde_json::value::RawValue;

use super::admit::AdmissionRequest;
use super::authenticate::Principal;
use super::collect::collect;
use super::count::{InputText, RequestSize};
use super::forward::{self, BegunAnswer, Outgoing};
use super::relay::{Answer, Relay};
use super::request_guard::RequestGuard;
use super::responses_stream::{self, ResponseToStore, ResponsesStream};
use super::stream_adapter::StreamAdapter;
use super::{AppState, Fault, admit, rate_limit_headers, route};
use crate::ledger::Size;
use crate::secrets::seal::AccountSealer;
use crate::state::{Limit, State, StateError};
use crate::upstream::UpstreamError;
use domain::key::Translation;
use domain::model::{Ability, Deployment, Model};
use domain::refusal::{Refusal, RequestFault};
use domain::response::{parse_response_id, response_id};
use domain::upstream::Profile;
use domain::wire::chunk::AnswerForm;
use translate::answer::{self, Envelope, KeepAlive, ResponseStream};
use translate::dialect::Dialect;
use translate::plan::{Plan, ReasoningOutput, ReasoningSealer};
use translate::request::{Earlier, HostedTools, Inputs, Request, Terms, Translated};

/// How Responses requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
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
    by_profile: Vec<(Profile, Result<Translated, Refusal>)>,
    /// The cap to send, in tokens, if it is lower than the client's.
    cap: Option<u64>,
}

/// Serves one Responses request. On an error, the caller sends the error and closes the guard.
///
/// # Errors
/// The request was refused, or no upstream answered it.
pub async fn responses(
    app: &Arc<AppState>,
    principal: &Principal,
    client: ClientKind,
    body: Bytes,
    guard: &mut Option<RequestGuard>,
) -> Result<Answer, Fault> {
    let open = guard.as_mut().expect("a request has a guard until it is answered");
    let request = Request::parse(&body)?;
    open.set_request(request.stream, &request.model);
    let model = admit::find_model(app, principal, &request.model)?;
    let recalled = recall(app, principal, &request).await?;
    let input = || InputText::of(&body, recalled.iter().flat_map(Recalled::texts));
    let sizes = RequestSize::of(&body, recalled.iter().flat_map(Recalled::texts));
    let size = Size {
        input_bytes: sizes.text_bytes,
        media_tokens: sizes.media_tokens,
        max_output: request.max_output_tokens,
        choices: 1,
        stream: request.stream,
    };
    let asked = AdmissionRequest { principal, model: &model, size: &size, input: &input };
    admit::admit(app, asked, open).await?;
    if let Some(cap) = open.output_cap()
        && principal.key.translation == Translation::Strict
    {
        return Err(Refusal::OutputCapTooHigh { cap }.into());
    }
    let sealer: Arc<dyn ReasoningSealer> =
        Arc::new(AccountSealer::new(app.sealer.clone(), principal.account.id));
    let cap = admit::output_cap(open, &model, &size);
    let translations =
        Translations::new(app, principal, &request, recalled.as_ref(), &model, cap, &*sealer);
    let translated = translations.first()?;
    let plan = translated.plan.clone();

    let mut seed = [0; 16];
    app.entropy.fill(&mut seed);
    let seed = u128::from_ne_bytes(seed);
    let envelope = Envelope {
        id: response_id(open.id()),
        created_at: open.arrived_at().as_second(),
        seed,
        done_marker: app.responses.done_marker,
        sealer,
    };
    let keeping = match (&app.state, &recalled) {
        (Some(state), Some(recalled)) if translated.store => {
            let input = input_items(&request, recalled, seed);
            Some(keeping(state, principal, &request, input, open)?)
        }
        _ => None,
    };
    if request.stream {
        let keep_alive = match (app.responses.keep_alive, client) {
            (KeepAliveMode::Auto, ClientKind::Codex) => KeepAlive::InProgress,
            (KeepAliveMode::Auto, ClientKind::Other) | (KeepAliveMode::Comment, _) => {
                KeepAlive::Comment
            }
            (KeepAliveMode::Event, _) => KeepAlive::Event,
        };
        let mut headers = HeaderMap::new();
        forward::report_in(&mut headers, &plan.report);
        rate_limit_headers::show(&mut headers, open.standing());
        let stream = ResponseStream::new(&envelope, plan);
        let exchange = ResponsesStream::new(stream, keep_alive, keeping, app.clock.clone());
        let (app, mut open) = (app.clone(), guard.take().expect("open until it is answered"));
        let commitment = open.commitment();
        let forwarding = async move {
            let begun = translations.forward(&app, &model, true, &mut open).await;
            (begun, open)
        };
        let adapter = StreamAdapter::Responses(Box::new(exchange));
        let relay = Relay::waiting(Box::pin(forwarding), adapter, headers, commitment);
        return relay.begin(guard).await;
    }
    let begun = translations.forward(app, &model, false, open).await?;
    let body = whole(
        app,
        begun.body,
        begun.upstream_client.idle_deadline(),
        envelope,
        plan,
        keeping,
        guard,
    );
    Ok(Answer::Whole { headers: begun.headers, body: body.await? })
}

/// Reads a plain answer and settles it.
async fn whole(
    app: &AppState,
    body: hyper::body::Incoming,
    idle: std::time::Duration,
    envelope: Envelope,
    plan: Arc<Plan>,
    keeping: Option<ResponseToStore>,
    guard: &mut Option<RequestGuard>,
) -> Result<Bytes, UpstreamError> {
    let open = guard.as_mut().expect("open until it is answered");
    open.answer_begun();
    let body = collect(body, idle).await?;
    let json = std::str::from_utf8(&body)
        .map_err(|_| UpstreamError::Invalid("its answer is not valid UTF-8".to_owned()))?;
    let whole = answer::whole(json, &envelope, plan, |answer| {
        open.meter.observe(answer, AnswerForm::Whole);
    })
    .map_err(responses_stream::violation)?;
    open.meter.check_choices()?;
    open.first_piece();
    let usage = poll_fn(|context| open.poll_used(context)).await;
    let now = app.clock.now().as_second();
    let outcome = whole.outcome();
    let object = whole.finish(answer::End { now, usage });
    if let Some(keeping) = keeping {
        keeping.keep(&object);
    }
    guard.take().expect("open until it is answered").close(responses_stream::ended(outcome));
    Ok(object)
}

/// Loads what the request continues and references.
async fn recall(
    app: &AppState,
    principal: &Principal,
    request: &Request<'_>,
) -> Result<Option<Recalled>, Refusal> {
    let Some(state) = &app.state else { return Ok(None) };
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

fn keeping(
    state: &Arc<State>,
    principal: &Principal,
    request: &Request<'_>,
    input: Arc<str>,
    guard: &RequestGuard,
) -> Result<ResponseToStore, Refusal> {
    if state.is_behind() {
        return Err(Refusal::RecorderBehind);
    }
    Ok(ResponseToStore {
        state: state.clone(),
        id: guard.id(),
        account: principal.account.id,
        previous: request.previous_response_id.as_deref().and_then(parse_response_id),
        created_at: guard.arrived_at(),
        input,
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
            let terms = Terms {
                dialect,
                inputs: Inputs::of(model, dialect),
                verbosity: model.abilities.contains(&Ability::Verbosity),
                strict,
                hosted_tools,
                reasoning: app.responses.reasoning,
                sealer,
                earlier: match recalled {
                    Some(Recalled { items, references, .. }) => Earlier::Kept { items, references },
                    None => Earlier::NotKept,
                },
            };
            by_profile.push((upstream.profile, request.translate(&terms)));
        }
        Self { by_profile, cap }
    }

    /// Returns the first translation that an upstream can serve.
    fn first(&self) -> Result<&Translated, Fault> {
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

    fn of(&self, profile: Profile) -> Result<&Translated, Refusal> {
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
        guard: &mut RequestGuard,
    ) -> Result<BegunAnswer, Fault> {
        let targets: Vec<&Deployment> = route::order(&model.deployments, app.entropy.as_ref());
        let mut begun = forward::forward(app, &targets, stream, guard, |upstream, target| {
            let body = self.of(upstream.profile)?.chat_body(&target.upstream_model, self.cap);
            Ok(Outgoing { body, edits: Vec::new() })
        })
        .await?;
        begun.report(&self.of(begun.upstream_client.profile())?.plan.report, guard);
        Ok(begun)
    }
}
