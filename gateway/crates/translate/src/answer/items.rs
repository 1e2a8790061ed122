//! The output items of an answer: the open one, and the queue behind it.
//!
//! Invariant: at most one item is open (`S-8b`), because clients assign interleaved argument deltas
//! to the wrong call. While a call with incomplete arguments is open, everything that follows is
//! queued. An item gets its `output_index` when it is opened, and is opened once (`S-8`, §5.6).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;

use super::ProtocolViolation;
use super::call::{CallItem, id_prefix};
use super::events::{Events, ItemRef, ItemStatus, put};
use super::ids::IdGenerator;
use super::message::{MessageItem, PartKind, append_list};
use super::reasoning::ReasoningItem;
use super::slots::{Phase, Slots};
use crate::plan::{ReasoningSealer, ResponsePlan, Tool, ToolKind};
use domain::wire::call::CallPiece;
use domain::wire::chunk::AnswerForm;

/// The longest upstream call id that is passed on (`R-10`).
const MAX_CALL_ID_CHARS: usize = 64;

/// The kinds of streamed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Reasoning,
    Part(PartKind),
}

/// Builds the items and writes their events.
pub(super) struct Items {
    plan: Arc<ResponsePlan>,
    sealer: Arc<dyn ReasoningSealer>,
    ids: IdGenerator,
    /// The closed items as comma-separated JSON.
    output: BytesMut,
    /// The `output_index` of the next item.
    next_index: u32,
    open: OpenItem,
    queue: VecDeque<Queued>,
    slots: Slots,
    used_call_ids: Vec<String>,
    /// The length in bytes of the text, calls, annotations and log probabilities received so far.
    received_bytes: usize,
    /// Whether the answer ended before the model was done.
    is_truncated: bool,
}

#[derive(Debug)]
enum OpenItem {
    Nothing,
    Message(MessageItem),
    Reasoning(ReasoningItem),
    Call(CallItem),
}

/// Content that follows the open item.
#[derive(Debug)]
enum Queued {
    Text { kind: TextKind, text: String, logprobs: String, annotations: Vec<String> },
    Call(usize),
}

// === impl Items ===

impl Items {
    pub(super) fn new(
        plan: Arc<ResponsePlan>,
        sealer: Arc<dyn ReasoningSealer>,
        seed: u128,
    ) -> Self {
        Self {
            plan,
            sealer,
            ids: IdGenerator::new(seed),
            output: BytesMut::new(),
            next_index: 0,
            open: OpenItem::Nothing,
            queue: VecDeque::new(),
            slots: Slots::default(),
            used_call_ids: Vec::new(),
            received_bytes: 0,
            is_truncated: false,
        }
    }

    /// Returns the closed items as comma-separated JSON.
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    /// Takes the closed items as comma-separated JSON.
    pub(super) fn take_output(&mut self) -> BytesMut {
        std::mem::take(&mut self.output)
    }

    /// Returns the number of buffered bytes: the closed items and parts, or all text, calls and
    /// metadata received, whichever is larger.
    pub(super) fn buffered_bytes(&self) -> usize {
        let parts = match &self.open {
            OpenItem::Message(message) => message.done_bytes(),
            OpenItem::Nothing | OpenItem::Reasoning(_) | OpenItem::Call(_) => 0,
        };
        (self.output.len() + parts).max(self.received_bytes)
    }

    /// Returns the length of the final events in bytes, approximately: the text of the open item is
    /// repeated in three events and in the response, and the closed items in the response.
    pub(super) fn final_bytes(&self) -> usize {
        let open = match &self.open {
            OpenItem::Nothing => 0,
            OpenItem::Message(message) => message.text_bytes(),
            OpenItem::Reasoning(reasoning) => reasoning.text_bytes(),
            OpenItem::Call(call) => self.slots.get(call.slot).arguments.as_str().len(),
        };
        4 * open + self.output.len()
    }

    /// Returns whether the model has produced nothing yet.
    pub(super) fn is_empty(&self) -> bool {
        self.output.is_empty() && self.queue.is_empty() && matches!(self.open, OpenItem::Nothing)
    }

    /// Appends text. Empty text opens no item.
    pub(super) fn push_text(
        &mut self,
        kind: TextKind,
        text: &str,
        logprobs: &str,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        self.received_bytes += text.len() + logprobs.len();
        if text.is_empty() {
            if !logprobs.is_empty() {
                self.add_logprobs(logprobs);
            }
            return Ok(());
        }
        if !self.must_queue() {
            self.emit_text(kind, text, logprobs, events);
            return Ok(());
        }
        match self.queue.back_mut() {
            Some(Queued::Text { kind: last, text: queued, logprobs: known, .. })
                if *last == kind =>
            {
                queued.push_str(text);
                append_list(known, logprobs);
                return Ok(());
            }
            _ => self.queue.push_back(Queued::Text {
                kind,
                text: text.to_owned(),
                logprobs: logprobs.to_owned(),
                annotations: Vec::new(),
            }),
        }
        self.advance(false, events)
    }

    /// Appends annotations of the latest text, each as JSON (`R-4`).
    pub(super) fn annotate(&mut self, annotations: Vec<String>, events: &mut Events<'_>) {
        self.received_bytes += annotations.iter().map(String::len).sum::<usize>();
        match (self.queue.back_mut(), &mut self.open) {
            (Some(Queued::Text { annotations: known, .. }), _) => known.extend(annotations),
            (None, OpenItem::Message(message)) => message.annotate(&annotations, events),
            _ => {}
        }
    }

    fn add_logprobs(&mut self, logprobs: &str) {
        match (self.queue.back_mut(), &mut self.open) {
            (Some(Queued::Text { logprobs: known, .. }), _) => append_list(known, logprobs),
            (None, OpenItem::Message(message)) => message.add_logprobs(logprobs),
            _ => {}
        }
    }

    /// Appends a call or a fragment of one. The calls of a non-streaming answer have no fragments.
    pub(super) fn call(
        &mut self,
        piece: &CallPiece<'_>,
        form: AnswerForm,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        if piece.is_custom {
            // The upstream knows custom tools as functions (`T-8`).
            return Err(ProtocolViolation::Model(
                "model called a custom tool that was not declared".into(),
            ));
        }
        self.received_bytes += piece.id.len() + piece.name.len() + piece.arguments.len();
        let Some(index) = self.slots.find_or_insert(piece, form)? else { return Ok(()) };
        let slot = self.slots.get_mut(index);
        slot.merge_labels(piece, &self.plan.tools);
        match slot.phase {
            // Fragments of a closed call are dropped.
            Phase::Done => return Ok(()),
            Phase::New => {
                slot.phase = Phase::Queued;
                slot.arguments.push(&piece.arguments);
                self.queue.push_back(Queued::Call(index));
            }
            Phase::Queued => _ = slot.arguments.push(&piece.arguments),
            Phase::Open => {
                let delta = slot.arguments.push(&piece.arguments);
                if let OpenItem::Call(call) = &self.open {
                    call.delta(delta, events);
                }
            }
        }
        if self.queue.is_empty() { Ok(()) } else { self.advance(false, events) }
    }

    /// Checks the queued calls at the end of the answer: assigns missing names, and enforces
    /// `tool_choice`.
    pub(super) fn check_end(&mut self) -> Result<(), ProtocolViolation> {
        for waiting in &self.queue {
            let Queued::Call(index) = *waiting else { continue };
            let slot = self.slots.get_mut(index);
            if slot.name.is_empty() {
                let mut names = self.plan.tools.wire_names();
                let (Some(only), None) = (names.next(), names.next()) else {
                    return Err(ProtocolViolation::Model(
                        "model called a tool without a name".to_owned(),
                    ));
                };
                only.clone_into(&mut slot.name);
            }
            check_allowed(&self.plan, &slot.name)?;
        }
        Ok(())
    }

    /// Opens and closes the queued items in order. The last item gets `status`; in an incomplete
    /// answer, so do the calls before it with incomplete arguments (`S-8c`). An answer without
    /// items gets an empty message (§5.4).
    pub(super) fn finish(&mut self, status: ItemStatus, events: &mut Events<'_>) {
        self.is_truncated = status == ItemStatus::Incomplete;
        let advanced = self.advance(true, events);
        debug_assert!(advanced.is_ok(), "settled before: {advanced:?}");
        if self.is_empty() {
            let mut message = MessageItem::open(self.new_item("msg_"), events);
            message.open_part(PartKind::Text, events);
            self.open = OpenItem::Message(message);
        }
        self.close(status, events);
    }

    /// Closes the open item as incomplete. An open call is dropped, because clients run a call once
    /// it is done; so is the queue (§5.7).
    pub(super) fn abort(&mut self, events: &mut Events<'_>) {
        self.queue.clear();
        if matches!(self.open, OpenItem::Call(_)) {
            self.open = OpenItem::Nothing;
        }
        self.close(ItemStatus::Incomplete, events);
    }

    /// Returns whether new content must be queued.
    fn must_queue(&mut self) -> bool {
        !self.queue.is_empty() || self.has_incomplete_call()
    }

    /// Returns whether a call with incomplete arguments is open.
    fn has_incomplete_call(&mut self) -> bool {
        match &self.open {
            OpenItem::Call(call) => !self.slots.get_mut(call.slot).is_complete(),
            _ => false,
        }
    }

    /// Opens queued items as far as possible.
    fn advance(
        &mut self,
        is_ending: bool,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        while !self.queue.is_empty() && (is_ending || !self.has_incomplete_call()) {
            match self.queue.front() {
                Some(&Queued::Call(slot)) => {
                    self.close_before_next(events);
                    if !(is_ending || self.can_announce(slot)) {
                        break;
                    }
                    check_allowed(&self.plan, &self.slots.get(slot).name)?;
                    self.queue.pop_front();
                    self.open_call(slot, events);
                }
                _ => self.emit_queued_text(events),
            }
        }
        Ok(())
    }

    /// Writes the text at the head of the queue.
    fn emit_queued_text(&mut self, events: &mut Events<'_>) {
        if let Some(Queued::Text { kind, text, logprobs, annotations }) = self.queue.pop_front() {
            self.emit_text(kind, &text, &logprobs, events);
            if let OpenItem::Message(message) = &mut self.open {
                message.annotate(&annotations, events);
            }
        }
    }

    /// Returns whether the call at the head of the queue can be announced (`S-8`).
    fn can_announce(&self, slot: usize) -> bool {
        let slot = self.slots.get(slot);
        let is_due = self.queue.len() > 1 || !slot.arguments.is_empty();
        !slot.name.is_empty() && (is_due || slot.is_announceable(&self.plan.tools))
    }

    fn emit_text(&mut self, kind: TextKind, text: &str, logprobs: &str, events: &mut Events<'_>) {
        match (kind, &mut self.open) {
            (TextKind::Part(kind), OpenItem::Message(message)) => {
                message.push(kind, text, logprobs, events);
            }
            (TextKind::Reasoning, OpenItem::Reasoning(reasoning)) => reasoning.push(text, events),
            (TextKind::Part(kind), _) => {
                self.close_before_next(events);
                let mut message = MessageItem::open(self.new_item("msg_"), events);
                message.push(kind, text, logprobs, events);
                self.open = OpenItem::Message(message);
            }
            (TextKind::Reasoning, _) => {
                self.close_before_next(events);
                let item_ref = self.new_item("rs_");
                let mut reasoning = ReasoningItem::open(item_ref, self.plan.reasoning, events);
                reasoning.push(text, events);
                self.open = OpenItem::Reasoning(reasoning);
            }
        }
    }

    fn open_call(&mut self, index: usize, events: &mut Events<'_>) {
        let slot = self.slots.get(index);
        let id = slot.id.as_str();
        let is_usable = !id.is_empty()
            && id.chars().count() <= MAX_CALL_ID_CHARS
            && !self.used_call_ids.iter().any(|used| used == id);
        let call_id = if is_usable { id.to_owned() } else { self.ids.next("call_") };
        let unknown;
        let tool = if let Some(tool) = self.plan.tools.find(&slot.name) {
            tool
        } else {
            let (kind, name) = (ToolKind::Function, slot.name.clone());
            unknown = Tool { kind, namespace: None, name };
            &unknown
        };
        let item_ref = ItemRef { id: self.ids.next(id_prefix(tool.kind)), index: self.next_index };
        self.next_index += 1;
        let call = CallItem::open(index, item_ref, tool, &call_id, &slot.arguments, events);
        self.used_call_ids.push(call_id);
        self.slots.get_mut(index).phase = Phase::Open;
        self.open = OpenItem::Call(call);
    }

    fn new_item(&mut self, prefix: &str) -> ItemRef {
        let item_ref = ItemRef { id: self.ids.next(prefix), index: self.next_index };
        self.next_index += 1;
        item_ref
    }

    /// Closes the open item before the next one is opened.
    fn close_before_next(&mut self, events: &mut Events<'_>) {
        let is_incomplete = self.is_truncated && self.has_incomplete_call();
        self.close(
            if is_incomplete { ItemStatus::Incomplete } else { ItemStatus::Completed },
            events,
        );
    }

    /// Closes the open item, if any.
    fn close(&mut self, status: ItemStatus, events: &mut Events<'_>) {
        let open = std::mem::replace(&mut self.open, OpenItem::Nothing);
        if matches!(open, OpenItem::Nothing) {
            return;
        }
        let output = &mut self.output;
        if !output.is_empty() {
            put(output, ",");
        }
        match open {
            OpenItem::Nothing => {}
            OpenItem::Message(message) => message.close(status, output, events),
            OpenItem::Reasoning(reasoning) => {
                let sealer = self.plan.seals_reasoning.then_some(&*self.sealer);
                reasoning.close(status, sealer, output, events);
            }
            OpenItem::Call(call) => {
                let slot = self.slots.get_mut(call.slot);
                call.close(status, &mut slot.arguments, output, events);
                slot.phase = Phase::Done;
            }
        }
    }
}

/// Enforces the restriction of `tool_choice` (§3.6).
fn check_allowed(plan: &ResponsePlan, name: &str) -> Result<(), ProtocolViolation> {
    match &plan.allowed {
        Some(allowed) if !allowed.contains(name) => {
            Err(ProtocolViolation::Model("model called a tool that was not allowed".to_owned()))
        }
        _ => Ok(()),
    }
}
