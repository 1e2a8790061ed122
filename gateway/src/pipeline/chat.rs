//! `POST /v1/chat/completions`: the phases of a chat request.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::admit::AdmissionRequest;
use super::answer::Answer;
use super::authenticate::Principal;
use super::count::InputText;
use super::failed_request::FailedRequest;
use super::forward::{self, Outgoing};
use super::meter::Meter;
use super::open_request::OpenRequest;
use super::outcome::RequestOutcome;
use super::passthrough::{self, ChatPassthrough};
use super::plain_answer::{self, PlainAnswer};
use super::relay::Relay;
use super::stream_adapter::StreamAdapter;
use super::{AppState, admit};
use crate::ledger::RequestSize;
use crate::upstream::UpstreamError;
use domain::key::Translation;
use domain::model::{Modality, Model};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::chat::ChatRequest;
use domain::wire::chunk::{AnswerForm, ChunkView};
use domain::wire::content::for_each_part;
use domain::wire::conversation::ConversationKey;
use domain::wire::splice::splice_into;
use domain::wire::usage::AnswerUsage;
use translate::dialect::Dialect;
use translate::report::{Loss, LossReport};

/// A request that may be admitted.
struct Prepared<'a> {
    request: ChatRequest<'a>,
    model: Arc<Model>,
    /// The fields that have no effect.
    ignored: LossReport,
    size: RequestSize,
}

/// A plain chat answer, which goes to the client as it is except for the model's name.
struct PlainChat<'a> {
    /// The name that the client requested, as a JSON string.
    model: &'a str,
}

/// Serves one chat request.
///
/// # Errors
/// The request was refused, or no upstream answered it.
pub async fn chat(
    app: &Arc<AppState>,
    principal: &Principal,
    body: Bytes,
    mut open: Box<OpenRequest>,
) -> Result<Answer, Box<FailedRequest>> {
    let Prepared { request, model, ignored, size } = match prepare(app, principal, &body, &mut open)
    {
        Ok(prepared) => prepared,
        Err(refusal) => return Err(FailedRequest::before_forwarding(open, refusal)),
    };
    let input = || InputText::from(body.clone());
    let asked = AdmissionRequest { principal, model: &model, size: &size, input: &input };
    let admitted = admit::admit(app, asked, open).await?;
    let cap = admitted.cap_to_send(&model, &size);
    let route = forward::route(app, &model, || ConversationKey::of_chat(&body));
    let mut begun = forward::forward(app, &route, request.stream, admitted, |upstream, target| {
        let cap_names = Dialect::of(upstream.profile).output_cap_fields;
        let edits = request.edits(&target.upstream_model, cap, cap_names);
        Ok(Outgoing { body: body.clone(), edits })
    })
    .await?;
    if !ignored.notes().is_empty() {
        begun.report(&ignored);
    }
    let model = request.model_json();
    if request.stream {
        let passthrough = ChatPassthrough::new(model.to_owned(), request.include_usage);
        let relay = Relay::reading(begun, StreamAdapter::Chat(passthrough));
        return Answer::begin_stream(relay).await;
    }
    plain_answer::answer(begun, PlainChat { model }).await
}

/// Parses the request and finds its model.
///
/// # Errors
/// The request is malformed, its key may not use the model, or the model does not accept its content.
fn prepare<'a>(
    app: &AppState,
    principal: &Principal,
    body: &'a Bytes,
    open: &mut OpenRequest,
) -> Result<Prepared<'a>, Refusal> {
    let request = ChatRequest::peek(body)?;
    open.set_request(request.stream, &request.model);
    let ignored = ignored(&request, principal.key.translation)?;
    let model = admit::find_model(app, principal, &request.model)?;
    check_modalities(&model, body)?;
    let size = RequestSize {
        input_bytes: (body.len() as u64).saturating_sub(request.media.data_bytes),
        media_tokens: request.media.tokens,
        max_output: request.max_output,
        choices: request.choices,
        stream: request.stream,
    };
    Ok(Prepared { request, model, ignored, size })
}

/// Reports the fields that have no effect.
///
/// # Errors
/// There is such a field and the key refuses losses.
fn ignored(request: &ChatRequest<'_>, translation: Translation) -> Result<LossReport, Refusal> {
    let mut report = LossReport::default();
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

/// Refuses the first part that the model does not accept. If the model's entry does not state what it
/// accepts, everything is sent and the body is not inspected.
///
/// # Errors
/// [`RequestFault::UnsupportedContentPart`], which names the part.
fn check_modalities(model: &Model, body: &[u8]) -> Result<(), Refusal> {
    if model.inputs.is_empty() {
        return Ok(());
    }
    let refused = for_each_part(body, |part| {
        let message = match part.modality() {
            _ if part.kind.is_none() => "a content part must have one `type`, a string".to_owned(),
            Some(modality) if modality != Modality::Text && !model.inputs.contains(&modality) => {
                format!(
                    "model `{}` takes no {}; leave this part out or use another model",
                    model.id,
                    modality.plural()
                )
            }
            _ => return ControlFlow::Continue(()),
        };
        let param = format!("messages[{}].content[{}].type", part.message, part.index);
        let code = RequestFault::UnsupportedContentPart;
        ControlFlow::Break(Refusal::invalid(code, Some(&param), message))
    });
    match refused {
        Some(ControlFlow::Break(refusal)) => Err(refusal),
        Some(ControlFlow::Continue(())) | None => Ok(()),
    }
}

impl PlainAnswer for PlainChat<'_> {
    /// The range of the model's name in the answer, if it differs from the requested one.
    type Checked = Option<Range<usize>>;

    fn check(&self, json: &str, meter: &mut Meter) -> Result<Self::Checked, UpstreamError> {
        let view = ChunkView::parse(json).map_err(|error| {
            UpstreamError::Invalid(format!("its answer is not a chat answer: {error}"))
        })?;
        meter.observe(&view, AnswerForm::Plain);
        if let Some(error) = view.reported_error(json) {
            return Err(UpstreamError::Reported(error));
        }
        if view.choices().is_empty() {
            return Err(UpstreamError::Invalid("its answer has no `choices`".to_owned()));
        }
        passthrough::check_not_broken(meter)?;
        Ok(view.model_other_than(json, self.model))
    }

    fn finish(
        self,
        checked: Self::Checked,
        body: Bytes,
        _: AnswerUsage,
        meter: &Meter,
    ) -> (Bytes, RequestOutcome) {
        let outcome = RequestOutcome::answered(meter);
        let Some(range) = checked else { return (body, outcome) };
        let mut renamed = BytesMut::with_capacity(body.len() + self.model.len());
        splice_into(&mut renamed, &body, range, self.model.as_bytes());
        (renamed.freeze(), outcome)
    }
}
