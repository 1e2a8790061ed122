//! A whole chat answer as a response object (§4).

use std::sync::Arc;

use bytes::Bytes;

use super::events::Events;
use super::object::{ResponseHead, ResponseState};
use super::reader::AnswerReader;
use super::{AnswerOutcome, CompletionInfo, Envelope, ProtocolViolation};
use crate::plan::ResponsePlan;
use domain::wire::chunk::{AnswerForm, ChunkView};
use domain::wire::parse_error;

/// An answer that has come whole and can be given to the client.
pub struct WholeAnswer {
    head: ResponseHead,
    reader: AnswerReader,
}

/// Reads a whole chat answer. If it is one, `look` sees it before anything else is done with it: one
/// that cannot be given to the client has cost something all the same.
///
/// # Errors
/// It is none, or an error, or the upstream broke it off, or the model called what it must not.
pub fn parse_whole(
    body: &str,
    envelope: &Envelope,
    plan: Arc<ResponsePlan>,
    observe: impl FnOnce(&ChunkView<'_>),
) -> Result<WholeAnswer, ProtocolViolation> {
    let head = ResponseHead::new(envelope, &plan);
    let mut reader = AnswerReader::new(envelope, plan);
    let view = ChunkView::parse(body).map_err(|error| {
        ProtocolViolation::Invalid(format!(
            "its answer is not a chat answer: {}",
            parse_error(&error)
        ))
    })?;
    observe(&view);
    reader.head(&view);
    if let Some(error) = view.reported_error(body) {
        return Err(ProtocolViolation::Reported(error));
    }
    let Some(choice) = view.choices().iter().find(|choice| choice.index == 0) else {
        return Err(ProtocolViolation::Invalid("its answer has no `choices`".to_owned()));
    };
    reader.choice(choice, AnswerForm::Whole, &mut Events::discarded())?;
    reader.check_end()?;
    Ok(WholeAnswer { head, reader })
}

impl WholeAnswer {
    /// How it ended.
    pub fn outcome(&self) -> AnswerOutcome {
        self.reader.outcome()
    }

    /// Makes the response object.
    pub fn finish(mut self, end: CompletionInfo) -> Bytes {
        self.reader.close(&mut Events::discarded());
        let state = match self.reader.reason() {
            None => ResponseState::Completed(end.now),
            Some(reason) => ResponseState::Incomplete(reason),
        };
        self.reader.object(&self.head, state, Some(&end.usage))
    }
}
