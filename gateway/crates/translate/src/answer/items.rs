//! The items of an answer: which one is open, and what waits for its turn.
//!
//! One item is open at a time (`S-8b`): clients give the pieces of interleaved calls to the wrong one.
//! So while a call is open whose arguments are not whole, whatever else comes waits behind it. An
//! index is given when an item is opened, and an item is opened once (`S-8`, §5.6).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;

use super::ProtocolViolation;
use super::call::{Call, id_prefix};
use super::events::{Events, Place, Status, put};
use super::ids::Ids;
use super::message::{Message, PartKind, add_listed};
use super::reasoning::Reasoning;
use super::slots::{Phase, Slots};
use crate::plan::{ReasoningSealer, ResponsePlan, Tool, ToolKind};
use domain::wire::call::CallPiece;
use domain::wire::chunk::AnswerForm;

/// The longest call id that is repeated as the upstream made it (`R-10`).
const MAX_CALL_ID_CHARS: usize = 64;

/// What a model says, but for its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Reasoning,
    Part(PartKind),
}

/// Builds the items, and writes the events that go with them.
pub(super) struct Items {
    plan: Arc<ResponsePlan>,
    sealer: Arc<dyn ReasoningSealer>,
    ids: Ids,
    /// The items that are done, as JSON with a comma between.
    output: BytesMut,
    /// The index of the next item.
    next: u32,
    open: Open,
    waiting: VecDeque<Waiting>,
    slots: Slots,
    call_ids: Vec<String>,
    /// How long the ids of calls are, and the annotations and probabilities that came with text, in bytes.
    beside: usize,
    /// Whether the answer has ended before the model had.
    is_cut: bool,
}

#[derive(Debug)]
enum Open {
    Nothing,
    Message(Message),
    Reasoning(Reasoning),
    Call(Call),
}

/// What comes after the item that is open.
#[derive(Debug)]
enum Waiting {
    Said { voice: Voice, text: String, logprobs: String, annotations: Vec<String> },
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
            ids: Ids::new(seed),
            output: BytesMut::new(),
            next: 0,
            open: Open::Nothing,
            waiting: VecDeque::new(),
            slots: Slots::default(),
            call_ids: Vec::new(),
            beside: 0,
            is_cut: false,
        }
    }

    /// The items that are done.
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    /// How much is kept beside what the model says, in bytes: the items and parts that are done, or what
    /// came with text and calls, whichever is more.
    pub(super) fn buffered_bytes(&self) -> usize {
        let parts = match &self.open {
            Open::Message(message) => message.done_bytes(),
            Open::Nothing | Open::Reasoning(_) | Open::Call(_) => 0,
        };
        (self.output.len() + parts).max(self.beside)
    }

    /// Whether the model has produced nothing yet.
    pub(super) fn is_empty(&self) -> bool {
        self.output.is_empty() && self.waiting.is_empty() && matches!(self.open, Open::Nothing)
    }

    /// Takes what the model says. Empty text opens nothing.
    pub(super) fn say(
        &mut self,
        voice: Voice,
        text: &str,
        logprobs: &str,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        self.beside += logprobs.len();
        if text.is_empty() {
            if !logprobs.is_empty() {
                self.add_logprobs(logprobs);
            }
            return Ok(());
        }
        if !self.is_blocked() {
            self.show(voice, text, logprobs, events);
            return Ok(());
        }
        match self.waiting.back_mut() {
            Some(Waiting::Said { voice: last, text: said, logprobs: known, .. })
                if *last == voice =>
            {
                said.push_str(text);
                add_listed(known, logprobs);
                return Ok(());
            }
            _ => self.waiting.push_back(Waiting::Said {
                voice,
                text: text.to_owned(),
                logprobs: logprobs.to_owned(),
                annotations: Vec::new(),
            }),
        }
        self.advance(false, events)
    }

    /// Takes annotations of the text that came last, each as JSON (`R-4`).
    pub(super) fn annotate(&mut self, annotations: Vec<String>, events: &mut Events<'_>) {
        self.beside += annotations.iter().map(String::len).sum::<usize>();
        match (self.waiting.back_mut(), &mut self.open) {
            (Some(Waiting::Said { annotations: known, .. }), _) => known.extend(annotations),
            (None, Open::Message(message)) => message.annotate(&annotations, events),
            _ => {}
        }
    }

    fn add_logprobs(&mut self, logprobs: &str) {
        match (self.waiting.back_mut(), &mut self.open) {
            (Some(Waiting::Said { logprobs: known, .. }), _) => add_listed(known, logprobs),
            (None, Open::Message(message)) => message.add_logprobs(logprobs),
            _ => {}
        }
    }

    /// Takes a call, or a piece of one. A whole answer has no pieces.
    pub(super) fn call(
        &mut self,
        piece: &CallPiece<'_>,
        form: AnswerForm,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        if piece.is_custom {
            // a custom tool is a function for the upstream (`T-8`)
            return Err(ProtocolViolation::Model(
                "model called a tool in a form that it was not given".into(),
            ));
        }
        self.beside += piece.id.len();
        let Some(index) = self.slots.place(piece, form)? else { return Ok(()) };
        let slot = self.slots.get_mut(index);
        slot.learn(piece, &self.plan.tools);
        match slot.phase {
            // what follows a whole call has no place in it
            Phase::Done => return Ok(()),
            Phase::New => {
                slot.phase = Phase::Waiting;
                slot.arguments.push(&piece.arguments);
                self.waiting.push_back(Waiting::Call(index));
            }
            Phase::Waiting => _ = slot.arguments.push(&piece.arguments),
            Phase::Open => {
                let delta = slot.arguments.push(&piece.arguments);
                if let Open::Call(call) = &self.open {
                    call.delta(delta, events);
                }
            }
        }
        if self.waiting.is_empty() { Ok(()) } else { self.advance(false, events) }
    }

    /// Settles what can only be settled at the end: calls without a name, and calls that were not
    /// allowed.
    pub(super) fn settle(&mut self) -> Result<(), ProtocolViolation> {
        for waiting in &self.waiting {
            let Waiting::Call(index) = *waiting else { continue };
            let slot = self.slots.get_mut(index);
            if slot.name.is_empty() {
                let mut names = self.plan.tools.wire_names();
                let (Some(only), None) = (names.next(), names.next()) else {
                    return Err(ProtocolViolation::Model(
                        "model called a tool without its name".to_owned(),
                    ));
                };
                only.clone_into(&mut slot.name);
            }
            check_allowed(&self.plan, &slot.name)?;
        }
        Ok(())
    }

    /// Opens and closes what is left, in order; the last item gets `status`, and in a cut answer so do
    /// the calls before it that are not whole (`S-8c`). An answer without any item gets an empty message
    /// (§5.4).
    pub(super) fn finish(&mut self, status: Status, events: &mut Events<'_>) {
        self.is_cut = status == Status::Incomplete;
        let advanced = self.advance(true, events);
        debug_assert!(advanced.is_ok(), "settled before: {advanced:?}");
        if self.is_empty() {
            let mut message = Message::open(self.place("msg_"), events);
            message.open_part(PartKind::Text, events);
            self.open = Open::Message(message);
        }
        self.close(status, events);
    }

    /// Closes what is open as incomplete, but for a call, which clients would run: it is left out, as
    /// is what waits (§5.7).
    pub(super) fn abandon(&mut self, events: &mut Events<'_>) {
        self.waiting.clear();
        if matches!(self.open, Open::Call(_)) {
            self.open = Open::Nothing;
        }
        self.close(Status::Incomplete, events);
    }

    /// Whether what comes now has to wait.
    fn is_blocked(&mut self) -> bool {
        !self.waiting.is_empty() || self.is_calling()
    }

    /// Whether a call is open whose arguments are not whole.
    fn is_calling(&mut self) -> bool {
        match &self.open {
            Open::Call(call) => !self.slots.get_mut(call.slot).is_complete(),
            _ => false,
        }
    }

    /// Gives their turn to those that wait, as far as that is possible now.
    fn advance(
        &mut self,
        is_ending: bool,
        events: &mut Events<'_>,
    ) -> Result<(), ProtocolViolation> {
        while !self.waiting.is_empty() && (is_ending || !self.is_calling()) {
            match self.waiting.front() {
                Some(&Waiting::Call(slot)) => {
                    self.make_room(events);
                    if !(is_ending || self.can_announce(slot)) {
                        break;
                    }
                    check_allowed(&self.plan, &self.slots.get(slot).name)?;
                    self.waiting.pop_front();
                    self.open_call(slot, events);
                }
                _ => self.show_next(events),
            }
        }
        Ok(())
    }

    /// Shows what was said while a call was open.
    fn show_next(&mut self, events: &mut Events<'_>) {
        if let Some(Waiting::Said { voice, text, logprobs, annotations }) = self.waiting.pop_front()
        {
            self.show(voice, &text, &logprobs, events);
            if let Open::Message(message) = &mut self.open {
                message.annotate(&annotations, events);
            }
        }
    }

    /// Whether the first that waits, a call, can be announced (`S-8`).
    fn can_announce(&self, slot: usize) -> bool {
        let slot = self.slots.get(slot);
        let is_due = self.waiting.len() > 1 || !slot.arguments.is_empty();
        !slot.name.is_empty() && (is_due || slot.is_known(&self.plan.tools))
    }

    fn show(&mut self, voice: Voice, text: &str, logprobs: &str, events: &mut Events<'_>) {
        match (voice, &mut self.open) {
            (Voice::Part(kind), Open::Message(message)) => {
                message.push(kind, text, logprobs, events);
            }
            (Voice::Reasoning, Open::Reasoning(reasoning)) => reasoning.push(text, events),
            (Voice::Part(kind), _) => {
                self.make_room(events);
                let mut message = Message::open(self.place("msg_"), events);
                message.push(kind, text, logprobs, events);
                self.open = Open::Message(message);
            }
            (Voice::Reasoning, _) => {
                self.make_room(events);
                let place = self.place("rs_");
                let mut reasoning = Reasoning::open(place, self.plan.reasoning, events);
                reasoning.push(text, events);
                self.open = Open::Reasoning(reasoning);
            }
        }
    }

    fn open_call(&mut self, index: usize, events: &mut Events<'_>) {
        let slot = self.slots.get(index);
        let id = slot.id.as_str();
        let is_usable = !id.is_empty()
            && id.chars().count() <= MAX_CALL_ID_CHARS
            && !self.call_ids.iter().any(|used| used == id);
        let call_id = if is_usable { id.to_owned() } else { self.ids.next("call_") };
        let unknown;
        let tool = if let Some(tool) = self.plan.tools.find(&slot.name) {
            tool
        } else {
            let (kind, name) = (ToolKind::Function, slot.name.clone());
            unknown = Tool { kind, namespace: None, name };
            &unknown
        };
        let place = Place { id: self.ids.next(id_prefix(tool.kind)), index: self.next };
        self.next += 1;
        let call = Call::open(index, place, tool, &call_id, &slot.arguments, events);
        self.call_ids.push(call_id);
        self.slots.get_mut(index).phase = Phase::Open;
        self.open = Open::Call(call);
    }

    fn place(&mut self, prefix: &str) -> Place {
        let place = Place { id: self.ids.next(prefix), index: self.next };
        self.next += 1;
        place
    }

    /// Closes the item that is open for the next one.
    fn make_room(&mut self, events: &mut Events<'_>) {
        let is_broken = self.is_cut && self.is_calling();
        self.close(if is_broken { Status::Incomplete } else { Status::Completed }, events);
    }

    /// Closes the item that is open.
    fn close(&mut self, status: Status, events: &mut Events<'_>) {
        let open = std::mem::replace(&mut self.open, Open::Nothing);
        if matches!(open, Open::Nothing) {
            return;
        }
        let output = &mut self.output;
        if !output.is_empty() {
            put(output, ",");
        }
        match open {
            Open::Nothing => {}
            Open::Message(message) => message.close(status, output, events),
            Open::Reasoning(reasoning) => {
                let sealer = self.plan.seals_reasoning.then_some(&*self.sealer);
                reasoning.close(status, sealer, output, events);
            }
            Open::Call(call) => {
                let slot = self.slots.get_mut(call.slot);
                call.close(status, &mut slot.arguments, output, events);
                slot.phase = Phase::Done;
            }
        }
    }
}

/// Enforces what `tool_choice` restricts the model to (§3.6).
fn check_allowed(plan: &ResponsePlan, name: &str) -> Result<(), ProtocolViolation> {
    match &plan.allowed {
        Some(allowed) if !allowed.contains(name) => {
            Err(ProtocolViolation::Model("model called a tool that was not allowed".to_owned()))
        }
        _ => Ok(()),
    }
}
