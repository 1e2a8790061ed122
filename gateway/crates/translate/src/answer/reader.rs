//! Reads chunks, and a whole answer as one, into items (§5.4).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::value::RawValue;

use super::events::{Events, ItemStatus};
use super::extras;
use super::items::{Items, TextKind};
use super::message::PartKind;
use super::object::{self, ResponseHead, ResponseState};
use super::{AnswerOutcome, AnswerUsage, Envelope, ProtocolViolation};
use crate::plan::ResponsePlan;
use domain::wire::chunk::{AnswerForm, ChoiceView, ChunkView, PieceView};
use domain::wire::error::ForeignError;
use domain::wire::finish::FinishReason;
use domain::wire::first_byte;
use domain::wire::text::text_of;

/// What is known of an answer so far.
pub(super) struct AnswerReader {
    pub(super) items: Items,
    pub(super) plan: Arc<ResponsePlan>,
    /// The class of service, as JSON.
    pub(super) tier: Option<String>,
    /// The first reason to end; there may be more to come (§0.1.4).
    pub(super) finish: Option<FinishReason>,
}

impl AnswerReader {
    pub(super) fn new(envelope: &Envelope, plan: Arc<ResponsePlan>) -> Self {
        let items = Items::new(plan.clone(), envelope.sealer.clone(), envelope.seed);
        Self { items, plan, tier: None, finish: None }
    }

    /// Takes note of a chunk's head: what it says side_bytes the answer.
    pub(super) fn head(&mut self, view: &ChunkView<'_>) {
        if let Some(tier) = view.service_tier.filter(|raw| first_byte(raw) == b'"')
            && self.tier.as_deref() != Some(tier.get())
        {
            self.tier = Some(tier.get().to_owned());
        }
    }

    /// Takes a choice: reasoning first, then text, refusal and calls, as they were thought.
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
            // it has not ended where a chunk without a reason follows
            None | Some(FinishReason::Unnamed) => choice.finish(),
            named => named,
        };
        Ok(())
    }

    fn piece(
        &mut self,
        piece: &PieceView<'_>,
        logprobs: Option<&RawValue>,
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

    /// Makes sure that an answer which has ended may be given to the client.
    pub(super) fn check_end(&mut self) -> Result<(), ProtocolViolation> {
        if self.finish == Some(FinishReason::Broken) {
            let message = Some("the upstream broke its answer off".to_owned());
            return Err(ProtocolViolation::Reported(ForeignError {
                message,
                ..ForeignError::default()
            }));
        }
        self.items.check_end()
    }

    /// Closes all items, the last one with the answer's own status.
    pub(super) fn close(&mut self, events: &mut Events<'_>) -> AnswerOutcome {
        let outcome = self.outcome();
        let status = match outcome {
            AnswerOutcome::Completed => ItemStatus::Completed,
            AnswerOutcome::Incomplete => ItemStatus::Incomplete,
        };
        self.items.finish(status, events);
        outcome
    }

    /// How the answer ended, if it is whole.
    pub(super) fn outcome(&self) -> AnswerOutcome {
        if self.reason().is_some() { AnswerOutcome::Incomplete } else { AnswerOutcome::Completed }
    }

    /// Why it is incomplete, if it is.
    pub(super) fn reason(&self) -> Option<&'static str> {
        match self.finish {
            Some(FinishReason::Length) => Some("max_output_tokens"),
            Some(FinishReason::Filter) => Some("content_filter"),
            _ => None,
        }
    }

    /// The response object with the items that are done.
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
