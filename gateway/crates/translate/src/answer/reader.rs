//! Reads chunks, or a non-streaming answer as a single chunk, into items (§5.4).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::events::{Events, ItemStatus};
use super::extras;
use super::items::{Items, TextKind};
use super::message::PartKind;
use super::object::{self, ResponseHead, ResponseState};
use super::{AnswerOutcome, AnswerUsage, Envelope, ProtocolViolation};
use crate::plan::ResponsePlan;
use domain::wire::chunk::{AnswerForm, ChoiceView, ChunkView};
use domain::wire::error::ReportedError;
use domain::wire::finish::FinishReason;
use domain::wire::json::RawJson;
use domain::wire::piece::PieceView;
use domain::wire::text::text_of;

/// The state of an answer.
pub(super) struct AnswerReader {
    pub(super) items: Items,
    pub(super) plan: Arc<ResponsePlan>,
    /// The service tier as JSON.
    pub(super) tier: Option<String>,
    /// The first finish reason. Chunks may follow it (§0.1.4).
    pub(super) finish: Option<FinishReason>,
}

impl AnswerReader {
    pub(super) fn new(envelope: &Envelope, plan: Arc<ResponsePlan>) -> Self {
        let items = Items::new(plan.clone(), envelope.sealer.clone(), envelope.seed);
        Self { items, plan, tier: None, finish: None }
    }

    /// Reads the members of a chunk outside its choices.
    pub(super) fn head(&mut self, view: &ChunkView<'_>) {
        if let Some(tier) = view.service_tier.filter(|raw| raw.first_byte() == b'"')
            && self.tier.as_deref() != Some(tier.get())
        {
            self.tier = Some(tier.get().to_owned());
        }
    }

    /// Reads a choice in the order reasoning, text, refusal, calls.
    pub(super) fn choice(
        &mut self,
        choice: &ChoiceView<'_>,
        form: AnswerForm,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        if let Some(piece) = choice.piece() {
            self.piece(piece, choice.logprobs, form, events)?;
        }
        self.finish = match self.finish {
            // An empty reason is not the end if another chunk follows.
            None | Some(FinishReason::Empty) => choice.finish(),
            named => named,
        };
        Ok(())
    }

    fn piece(
        &mut self,
        piece: &PieceView<'_>,
        logprobs: Option<RawJson<'_>>,
        form: AnswerForm,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        let reasoning = piece.reasoning_text();
        self.items.push_text(TextKind::Reasoning, &reasoning, "", events)?;
        let logprobs = match logprobs.filter(|_| self.plan.logprobs) {
            Some(raw) => Cow::Owned(extras::logprobs(raw)),
            None => Cow::Borrowed(""),
        };
        let text = text_of(piece.content);
        self.items.push_text(TextKind::Part(PartKind::Text), &text, &logprobs, events)?;
        if let Some(raw) = piece.annotations {
            self.items.annotate(extras::annotations(raw), events);
        }
        let refusal = text_of(piece.refusal);
        self.items.push_text(TextKind::Part(PartKind::Refusal), &refusal, "", events)?;
        let calls = piece
            .calls()
            .map_err(|malformed| ProtocolViolation::Invalid(malformed.parse_error.clone()))?;
        calls.iter().try_for_each(|call| self.items.call(call, form, events))
    }

    /// Checks that an answer which has ended can be delivered.
    pub(super) fn check_end(&mut self) -> Result<(), ProtocolViolation> {
        if self.finish == Some(FinishReason::Failed) {
            let message = Some("the upstream broke its answer off".to_owned());
            return Err(ProtocolViolation::Reported(ReportedError {
                message,
                ..ReportedError::default()
            }));
        }
        self.items.check_end()
    }

    /// Closes all items; the last one gets the status of the answer.
    pub(super) fn close(&mut self, events: &mut Events<'_>) -> AnswerOutcome {
        let outcome = self.outcome();
        let status = match outcome {
            AnswerOutcome::Completed => ItemStatus::Completed,
            AnswerOutcome::Incomplete => ItemStatus::Incomplete,
        };
        self.items.finish(status, events);
        outcome
    }

    /// Returns the outcome of an answer that has ended.
    pub(super) fn outcome(&self) -> AnswerOutcome {
        match self.finish {
            Some(FinishReason::Complete | FinishReason::Empty) => AnswerOutcome::Completed,
            // An answer without a reason is a plain one: a stream without one fails.
            Some(FinishReason::Length | FinishReason::Filter | FinishReason::Failed) | None => {
                AnswerOutcome::Incomplete
            }
        }
    }

    /// Returns the state of the response of an answer that has ended, at `completed_at` if it is complete.
    pub(super) fn state(&self, completed_at: i64) -> ResponseState<'static> {
        match self.outcome() {
            AnswerOutcome::Completed => ResponseState::Completed(completed_at),
            AnswerOutcome::Incomplete => ResponseState::Incomplete(match self.finish {
                Some(FinishReason::Length) => Some("max_output_tokens"),
                Some(FinishReason::Filter) => Some("content_filter"),
                _ => None,
            }),
        }
    }

    /// Returns the response object with the closed items.
    pub(super) fn object(
        &self,
        head: &ResponseHead,
        state: ResponseState<'_>,
        usage: Option<&AnswerUsage>,
    ) -> Bytes {
        let mut out = BytesMut::new();
        let (tier, output) = (self.tier.as_deref(), self.items.output());
        object::write(&mut out, (head, &self.plan), state, tier, output, usage);
        out.freeze()
    }
}
