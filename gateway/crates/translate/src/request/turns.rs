//! Builds messages from items: the merge algorithm (§2.4).
//!
//! Consecutive assistant-side items form a turn, which becomes one assistant message. Results are
//! attached to their calls, so that tool messages follow the assistant message in the order of its
//! calls whatever the order in the input (`I-20`, `I-21`); other messages in between follow them.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::super::dialect::LateSystem;
use super::super::loss_recorder::LossRecorder;
use super::super::path::Path;
use super::super::plan::ToolKind;
use super::super::report::Loss;
use super::super::tools::wire_name;
use super::call_links::{Entry, Link};
use super::chat::{ChatMessage, Content};
use super::content::{self, ToolResult, append, join};
use super::item::{Call, CallOutput, Item, ItemLocation, Reasoning, Role, ToolOutput};
use super::options::TranslateOptions;
use super::part::Part;
use super::turn::{Turn, TurnCall, TurnReasoning};
use domain::refusal::Refusal;

/// The subject of a loss of reasoning without id.
const NO_ID: &str = "without id";

/// The input of the merge algorithm.
#[derive(Clone, Copy)]
pub(super) struct Conversation<'s> {
    pub(super) instructions: Option<&'s str>,
    pub(super) entries: &'s [Entry<'s>],
    /// The links between calls and outputs, by entry.
    pub(super) links: &'s [Link],
    /// The wire names of the tools found by searches, by entry.
    pub(super) found: &'s HashMap<usize, Vec<String>>,
}

/// Builds the messages of a conversation.
pub(super) fn messages<'s>(
    conversation: Conversation<'s>,
    options: &TranslateOptions<'_>,
    losses: &mut LossRecorder,
) -> Result<Vec<ChatMessage<'s>>, Refusal> {
    let mut builder = MessageBuilder {
        options,
        links: conversation.links,
        found: conversation.found,
        head: Vec::new(),
        nodes: Vec::new(),
        draft: Turn::default(),
        owner: None,
        calls: HashMap::new(),
    };
    if let Some(text) = conversation.instructions {
        builder.head.push(Content::Text(Cow::Borrowed(text)));
    }
    for (index, entry) in conversation.entries.iter().enumerate() {
        builder.push(index, entry, losses)?;
    }
    builder.flush(conversation.entries.len(), losses)?;
    builder.render(losses)
}

/// The state of the merge algorithm.
struct MessageBuilder<'s, 't> {
    options: &'t TranslateOptions<'t>,
    links: &'s [Link],
    found: &'s HashMap<usize, Vec<String>>,
    /// The contents of the leading system message (`I-4`).
    head: Vec<Content<'s>>,
    nodes: Vec<Node<'s>>,
    /// The current turn.
    draft: Turn<'s>,
    /// The last turn with outstanding results: its node, and the entry of its last result.
    owner: Option<(usize, usize)>,
    /// The node of each call and its index there, by entry.
    calls: HashMap<usize, (usize, usize)>,
}

enum Node<'s> {
    Plain { role: &'static str, content: Content<'s> },
    Turn(Turn<'s>),
}

impl<'s> MessageBuilder<'s, '_> {
    fn push(
        &mut self,
        index: usize,
        entry: &'s Entry<'s>,
        losses: &mut LossRecorder,
    ) -> Result<(), Refusal> {
        let at = entry.location.path();
        match entry.item {
            Item::Message { role, content } => {
                self.flush(index, losses)?;
                self.prompt(*role, content, &at)
            }
            Item::Assistant(content) => {
                self.assistant(index, content);
                Ok(())
            }
            Item::Reasoning(reasoning) => self.reasoning(reasoning, entry.location, losses),
            Item::Call(call) => self.call(index, call, entry.location, losses),
            Item::Output(output) => {
                self.flush(index, losses)?;
                self.output(index, output, &at)
            }
            // Tools are collected separately, references are resolved, hosted records have no text.
            Item::Tools(_) | Item::Reference(_) | Item::HostedRecord(_) => Ok(()),
        }
    }

    fn prompt(&mut self, role: Role, parts: &'s [Part<'s>], at: &Path<'_>) -> Result<(), Refusal> {
        if parts.is_empty() {
            return Ok(()); // `I-8`
        }
        let content = content::content(parts, self.options, &at.field("content"))?;
        match role {
            Role::User => self.nodes.push(Node::Plain { role: "user", content }),
            Role::System
                if self.nodes.is_empty()
                    || self.options.dialect.late_system == LateSystem::Hoist =>
            {
                self.head.push(content);
            }
            Role::System => {
                let role = self.options.dialect.developer_role;
                self.nodes.push(Node::Plain { role, content });
            }
        }
        Ok(())
    }

    /// Step 2: adds a message to its turn, which may be one with outstanding results.
    fn assistant(&mut self, index: usize, parts: &'s [Part<'s>]) {
        let keeps_refusals = self.options.dialect.refusal_part;
        let open = self.owner.filter(|(_, last_output)| *last_output > index);
        let turn = match open.map(|(node, _)| &mut self.nodes[node]) {
            Some(Node::Turn(turn)) if self.draft.is_empty() => turn,
            _ => &mut self.draft,
        };
        let mut text = None;
        for part in parts {
            match part {
                Part::Refusal(refusal) if keeps_refusals => {
                    turn.refusals.push(Cow::Borrowed(refusal));
                }
                Part::Text(more) | Part::Refusal(more) => append(&mut text, "", more),
                Part::Image { .. } | Part::File { .. } | Part::Audio { .. } => {}
            }
        }
        let text: Cow<'s, str> = text.unwrap_or_default();
        match &mut turn.text {
            None => turn.text = Some(text),
            Some(before) if before.is_empty() => *before = text,
            Some(_) if text.is_empty() => {}
            Some(before) => {
                let before = before.to_mut();
                before.push('\n');
                before.push_str(&text);
            }
        }
    }

    /// Step 1: adds reasoning to the turn, for its assistant message (`I-12`).
    fn reasoning(
        &mut self,
        reasoning: &'s Reasoning<'s>,
        location: ItemLocation,
        losses: &mut LossRecorder,
    ) -> Result<(), Refusal> {
        let text = reasoning_text(reasoning, self.options);
        let id = reasoning.id.as_deref();
        if text.is_empty() {
            // For example the blob of another server: `I-12` skips it, because Codex repeats it in
            // every request.
            losses.record_unreadable(Loss::ReasoningDropped, id.unwrap_or(NO_ID));
            return Ok(());
        }
        if self.options.dialect.reasoning_field.is_none() {
            return losses.record(Loss::ReasoningDropped, id.unwrap_or(NO_ID), &location.path());
        }
        if self.draft.reasoning.last().is_none_or(|before| before.text != text) {
            self.draft.reasoning.push(TurnReasoning { text, id, location });
        }
        Ok(())
    }

    /// Step 3: adds a call to the turn.
    fn call(
        &mut self,
        index: usize,
        call: &'s Call<'s>,
        location: ItemLocation,
        losses: &mut LossRecorder,
    ) -> Result<(), Refusal> {
        let wire_id = match &self.links[index] {
            Link::Call { renamed: Some(renamed), .. } => renamed,
            _ => call.id.as_ref(),
        };
        let arguments = match call.kind {
            ToolKind::Custom => Cow::Owned(wrap("input", &call.arguments)),
            ToolKind::Function | ToolKind::ToolSearch if is_json(&call.arguments) => {
                Cow::Borrowed(call.arguments.as_ref())
            }
            ToolKind::Function | ToolKind::ToolSearch => {
                let at = location.path();
                losses.record(Loss::ArgumentsWrapped, &call.id, &at.field("arguments"))?;
                Cow::Owned(wrap("__invalid_arguments", &call.arguments))
            }
        };
        let name = wire_name(call.namespace.as_deref(), &call.name);
        let call = TurnCall { entry: index, location, wire_id, name, arguments, result: None };
        self.draft.calls.push(call);
        Ok(())
    }

    /// Step 4: attaches a result to its call.
    fn output(
        &mut self,
        index: usize,
        output: &'s CallOutput<'s>,
        at: &Path<'_>,
    ) -> Result<(), Refusal> {
        let Link::Output(call) = self.links[index] else { return Ok(()) };
        let result = match &output.result {
            ToolOutput::Parts(parts) => content::result(parts, self.options, &at.field("output"))?,
            ToolOutput::Tools(_) => {
                let names = self.found.get(&index).map_or(&[][..], Vec::as_slice);
                let text = match names {
                    [] => "No tools were found.".to_owned(),
                    names => format!("These tools can be called now: {}", names.join(", ")),
                };
                ToolResult { content: Content::Text(Cow::Owned(text)), media: Vec::new() }
            }
        };
        if let Some(&(node, number)) = self.calls.get(&call)
            && let Node::Turn(turn) = &mut self.nodes[node]
        {
            turn.calls[number].result = Some(result);
        }
        Ok(())
    }

    /// Ends the current turn; `index` is the entry after it.
    fn flush(&mut self, index: usize, losses: &mut LossRecorder) -> Result<(), Refusal> {
        let draft = std::mem::take(&mut self.draft);
        let has_no_output = draft.refusals.is_empty() && draft.calls.is_empty();
        if has_no_output && draft.text.is_none() {
            for reasoning in &draft.reasoning {
                let subject = reasoning.id.unwrap_or(NO_ID);
                losses.record(Loss::ReasoningDropped, subject, &reasoning.location.path())?; // `I-27`
            }
            return Ok(());
        }
        if has_no_output && draft.reasoning.is_empty() && draft.text.as_deref() == Some("") {
            return Ok(()); // `I-8`
        }
        let node = self.nodes.len();
        let mut last_output = None;
        for (number, call) in draft.calls.iter().enumerate() {
            self.calls.insert(call.entry, (node, number));
            if let Link::Call { answered_at, .. } = self.links[call.entry] {
                last_output = last_output.max(answered_at);
            }
        }
        if let Some(last_output) = last_output.filter(|last_output| *last_output >= index) {
            self.owner = Some((node, last_output));
        }
        self.nodes.push(Node::Turn(draft));
        Ok(())
    }

    fn render(self, losses: &mut LossRecorder) -> Result<Vec<ChatMessage<'s>>, Refusal> {
        let mut messages = Vec::with_capacity(self.nodes.len() + 1);
        if let Some(content) = join(self.head) {
            messages
                .push(ChatMessage::Plain { role: self.options.dialect.developer_role, content });
        }
        for node in self.nodes {
            match node {
                Node::Plain { role, content } => {
                    messages.push(ChatMessage::Plain { role, content });
                }
                Node::Turn(turn) => {
                    turn.render(self.options.dialect.reasoning_field, &mut messages, losses)?;
                }
            }
        }
        Ok(messages)
    }
}

/// Returns the text of a reasoning item, from the first source that has any (`I-12`).
fn reasoning_text<'s>(
    reasoning: &'s Reasoning<'s>,
    options: &TranslateOptions<'_>,
) -> Cow<'s, str> {
    if let Some(text) = reasoning.sealed.as_deref().and_then(|sealed| options.sealer.open(sealed)) {
        return Cow::Owned(text);
    }
    for (texts, separator) in [(&reasoning.content, "\n"), (&reasoning.summary, "\n\n")] {
        let mut whole = None;
        for text in texts.iter().filter(|text| !text.is_empty()) {
            append(&mut whole, separator, text);
        }
        if let Some(whole) = whole {
            return whole;
        }
    }
    Cow::Borrowed("")
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text.trim()).is_ok()
}

fn wrap(key: &str, text: &str) -> String {
    let mut members = super::super::raw::ObjectWriter::default();
    members.put(key, text);
    members.into_object()
}
