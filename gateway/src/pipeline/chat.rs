//! `POST /v1/chat/completions`: the phases of a chat request.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::poll_fn;
use hyper::body::Incoming;

use super::admit::AdmissionRequest;
use super::authenticate::Principal;
use super::collect::collect;
use super::count::InputText;
use super::forward::{self, Outgoing};
use super::outcome::RequestOutcome;
use super::passthrough::{self, ChatPassthrough};
use super::relay::{Answer, Relay};
use super::request_guard::RequestGuard;
use super::stream_adapter::StreamAdapter;
use super::{AppState, Fault, admit, modalities, route};
use crate::ledger::Size;
use crate::upstream::UpstreamError;
use domain::key::Translation;
use domain::refusal::{Refusal, RequestFault};
use domain::wire::chat::ChatRequest;
use domain::wire::chunk::{AnswerForm, ChunkView};
use domain::wire::parse_error;
use domain::wire::splice::splice_into;
use translate::dialect::Dialect;
use translate::report::{Loss, Report};

/// Serves one chat request. On an error, the caller sends the error and closes the guard.
///
/// # Errors
/// The request was refused, or no upstream answered it.
pub async fn chat(
    app: &Arc<AppState>,
    principal: &Principal,
    body: Bytes,
    guard: &mut Option<RequestGuard>,
) -> Result<Answer, Fault> {
    let open = guard.as_mut().expect("a request has a guard until it is answered");
    let request = ChatRequest::peek(&body)?;
    open.set_request(request.stream, &request.model);
    let ignored = ignored(&request, principal.key.translation)?;
    let model = admit::find_model(app, principal, &request.model)?;
    modalities::check(&model, &body)?;
    let size = Size {
        input_bytes: (body.len() as u64).saturating_sub(request.media.data_bytes),
        media_tokens: request.media.tokens,
        max_output: request.max_output,
        choices: request.choices,
        stream: request.stream,
    };
    open.meter.asked(request.choices);
    let input = || InputText::from(body.clone());
    let asked = AdmissionRequest { principal, model: &model, size: &size, input: &input };
    admit::admit(app, asked, open).await?;
    let cap = admit::output_cap(open, &model, &size);
    let targets = route::order(&model.deployments, app.entropy.as_ref());
    let mut begun = forward::forward(app, &targets, request.stream, open, |upstream, target| {
        let cap_names = Dialect::of(upstream.profile).caps;
        let edits = request.edits(&target.upstream_model, cap, cap_names);
        Ok(Outgoing { body: body.clone(), edits })
    })
    .await?;
    if !ignored.notes().is_empty() {
        begun.report(&ignored, open);
    }
    let name = request.model_json();
    if request.stream {
        let adapter =
            StreamAdapter::Chat(ChatPassthrough::new(name.to_owned(), request.include_usage));
        return Relay::reading(begun, adapter, guard.take()).begin(guard).await;
    }
    let idle = begun.upstream_client.idle_deadline();
    let body = whole(begun.body, idle, name, open).await?;
    poll_fn(|context| open.poll_used(context)).await;
    let end = RequestOutcome::answered(&open.meter);
    guard.take().expect("open until it is answered").close(end);
    Ok(Answer::Whole { headers: begun.headers, body })
}

/// Reports the fields that have no effect.
///
/// # Errors
/// There is such a field and the key refuses losses.
fn ignored(request: &ChatRequest<'_>, translation: Translation) -> Result<Report, Refusal> {
    let mut report = Report::default();
    for name in request.ignored() {
        if translation == Translation::Strict {
            let message = format!(
                "`{name}` would have no effect on this model, and this key is set to refuse any loss"
            );
            let code = RequestFault::UnsupportedParameter;
            return Err(Refusal::invalid(code, Some(name), message));
        }
        report.add(Loss::FieldIgnored, name);
    }
    Ok(report)
}

async fn whole(
    body: Incoming,
    idle: Duration,
    model: &str,
    guard: &mut RequestGuard,
) -> Result<Bytes, UpstreamError> {
    guard.answer_begun();
    let body = collect(body, idle).await?;
    let json = std::str::from_utf8(&body)
        .map_err(|_| UpstreamError::Invalid("its answer is not valid UTF-8".to_owned()))?;
    let view = ChunkView::parse(json).map_err(|error| {
        UpstreamError::Invalid(format!("its answer is not a chat answer: {}", parse_error(&error)))
    })?;
    guard.meter.observe(&view, AnswerForm::Whole);
    if let Some(error) = view.reported_error(json) {
        return Err(UpstreamError::Reported(error));
    }
    if view.choices().is_empty() {
        return Err(UpstreamError::Invalid("its answer has no `choices`".to_owned()));
    }
    passthrough::check_not_broken(&guard.meter)?;
    guard.meter.check_choices()?;
    guard.first_piece();
    let Some(range) = view.model_other_than(json, model) else { return Ok(body) };
    let mut renamed = BytesMut::with_capacity(body.len() + model.len());
    splice_into(&mut renamed, &body, range, model.as_bytes());
    Ok(renamed.freeze())
}
