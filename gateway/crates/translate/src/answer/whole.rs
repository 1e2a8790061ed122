//! Translates a non-streaming chat answer into a response object (§4).

use std::sync::Arc;

use bytes::Bytes;

use super::events::Events;
use super::object::ResponseHead;
use super::reader::AnswerReader;
use super::{AnswerOutcome, CompletionInfo, Envelope, ProtocolViolation};
use crate::plan::ResponsePlan;
use domain::wire::chunk::{AnswerForm, ChunkView};

/// A non-streaming answer that can be delivered to the client.
pub struct WholeAnswer {
    head: ResponseHead,
    reader: AnswerReader,
}

/// Parses a non-streaming chat answer. `observe` sees every chat answer before it is checked,
/// because an answer that cannot be delivered is charged for all the same.
///
/// # Errors
/// The body is not a chat answer or reports an error, the upstream aborted the answer, or the model
/// called a tool that is not allowed.
pub fn parse_whole(
    body: &str,
    envelope: &Envelope,
    plan: Arc<ResponsePlan>,
    observe: impl FnOnce(&ChunkView<'_>),
) -> Result<WholeAnswer, ProtocolViolation> {
    let head = ResponseHead::new(envelope, &plan);
    let mut reader = AnswerReader::new(envelope, plan);
    let view = ChunkView::parse(body).map_err(|error| {
        ProtocolViolation::Invalid(format!("its answer is not a chat answer: {error}"))
    })?;
    observe(&view);
    reader.head(&view);
    if let Some(error) = view.reported_error(body) {
        return Err(ProtocolViolation::Reported(error));
    }
    let Some(choice) = view.choices().iter().find(|choice| choice.index == 0) else {
        return Err(ProtocolViolation::Invalid("its answer has no `choices`".to_owned()));
    };
    reader.choice(choice, AnswerForm::Plain, &mut Events::discarded())?;
    reader.check_end()?;
    Ok(WholeAnswer { head, reader })
}

impl WholeAnswer {
    /// Returns the outcome of the answer.
    pub fn outcome(&self) -> AnswerOutcome {
        self.reader.outcome()
    }

    /// Returns the response object.
    pub fn finish(mut self, end: CompletionInfo) -> Bytes {
        self.reader.close(&mut Events::discarded());
        let state = self.reader.state(end.completed_at);
        self.reader.object(&self.head, state, Some(&end.usage))
    }
}
