//! Assigns call fragments to calls (`S-6`) and merges them (`S-7`).

use super::ProtocolViolation;
use super::object_scanner::ObjectScanner;
use super::text::EscapedText;
use crate::plan::ToolNames;
use domain::wire::call::{CallKey, CallPiece, MAX_CALLS};
use domain::wire::chunk::AnswerForm;

/// A call as received from the upstream.
#[derive(Debug, Default)]
pub(super) struct Slot {
    index: Option<u64>,
    /// The first non-empty id.
    pub(super) id: String,
    /// The wire name received so far.
    pub(super) name: String,
    pub(super) arguments: EscapedText,
    pub(super) phase: Phase,
    end: ObjectScanner,
}

/// The progress of a call towards the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not queued yet.
    #[default]
    New,
    Queued,
    Open,
    Done,
}

/// The calls of an answer in the order of their first fragments.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Slot>);

// === impl Slots ===

impl Slots {
    pub(super) fn get(&self, slot: usize) -> &Slot {
        &self.0[slot]
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> &mut Slot {
        &mut self.0[slot]
    }

    /// Returns the slot of a fragment, and adds one if there is none; `None` if an empty fragment
    /// matches no slot. Every call of a non-streaming answer gets a new slot.
    pub(super) fn find_or_insert(
        &mut self,
        piece: &CallPiece<'_>,
        form: AnswerForm,
    ) -> Result<Option<usize>, ProtocolViolation> {
        let found = if form == AnswerForm::Plain { None } else { self.find(piece) };
        if found.is_some() || piece.is_empty() {
            return Ok(found);
        }
        if self.0.len() == MAX_CALLS {
            return Err(ProtocolViolation::Invalid(format!(
                "more than {MAX_CALLS} calls in one answer"
            )));
        }
        self.0.push(Slot { index: piece.index, ..Slot::default() });
        Ok(Some(self.0.len() - 1))
    }

    fn find(&mut self, piece: &CallPiece<'_>) -> Option<usize> {
        let has_name = !piece.name.is_empty();
        let continues = |slot: &Slot| piece.key().may_continue(has_name, slot.key());
        let last = self.0.iter().rposition(continues)?;
        let slot = &mut self.0[last];
        if piece.index.is_none() || !(piece.id.is_empty() || slot.id.is_empty()) {
            return Some(last);
        }
        // Without ids, a new name after complete arguments begins another call with the same index.
        let is_repeat = piece.name == slot.name && piece.arguments.is_empty();
        let begins = has_name && !slot.name.is_empty() && !is_repeat;
        (!(begins && slot.is_complete())).then_some(last)
    }
}

// === impl Slot ===

impl Slot {
    fn key(&self) -> CallKey<'_> {
        CallKey { index: self.index, id: &self.id }
    }

    /// Merges the id and the name of a fragment; the arguments are the caller's task.
    pub(super) fn merge_labels(&mut self, piece: &CallPiece<'_>, tools: &ToolNames) {
        if matches!(self.phase, Phase::Open | Phase::Done) {
            return;
        }
        if self.id.is_empty() {
            self.id.push_str(&piece.id);
        }
        let fragment = &*piece.name;
        if self.name.is_empty() {
            self.name.push_str(fragment);
        } else if fragment != self.name && !fragment.is_empty() {
            let begins = |name: &str| tools.wire_names().any(|tool| tool.starts_with(name));
            let longer = [&self.name, fragment].concat();
            if begins(&longer) || !begins(&self.name) {
                self.name = longer;
            }
        }
    }

    /// Returns whether the name is complete and the id known, so that the call can be announced
    /// before its arguments arrive (`S-8`).
    pub(super) fn is_announceable(&self, tools: &ToolNames) -> bool {
        let continues = |tool: &str| tool.len() > self.name.len() && tool.starts_with(&self.name);
        !self.id.is_empty()
            && tools.find(&self.name).is_some()
            && !tools.wire_names().any(continues)
    }

    /// Returns whether the arguments are a complete JSON object.
    pub(super) fn is_complete(&mut self) -> bool {
        self.phase == Phase::Done || self.end.is_complete(self.arguments.as_str())
    }
}
