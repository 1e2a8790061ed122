//! Renders an assistant turn as messages.

use std::borrow::Cow;

use super::super::loss_recorder::LossRecorder;
use super::super::report::Loss;
use super::chat::{ChatMessage, ChatPart, Content, FunctionCall, ToolCall};
use super::content::{ToolResult, append};
use super::item::ItemLocation;
use domain::refusal::Refusal;

/// The synthesized output of a call without one (`I-23`).
const MISSING_OUTPUT: &str = "[no output: the call was interrupted]";

/// An assistant turn: consecutive assistant-side items.
#[derive(Default)]
pub(super) struct Turn<'s> {
    pub(super) text: Option<Cow<'s, str>>,
    pub(super) refusals: Vec<Cow<'s, str>>,
    pub(super) reasoning: Vec<TurnReasoning<'s>>,
    pub(super) calls: Vec<TurnCall<'s>>,
}

pub(super) struct TurnReasoning<'s> {
    pub(super) text: Cow<'s, str>,
    pub(super) id: Option<&'s str>,
    pub(super) location: ItemLocation,
}

/// A call of a turn, and its result.
pub(super) struct TurnCall<'s> {
    pub(super) entry: usize,
    pub(super) location: ItemLocation,
    pub(super) wire_id: &'s str,
    pub(super) name: String,
    pub(super) arguments: Cow<'s, str>,
    pub(super) result: Option<ToolResult<'s>>,
}

impl<'s> Turn<'s> {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_none()
            && self.refusals.is_empty()
            && self.reasoning.is_empty()
            && self.calls.is_empty()
    }

    pub(super) fn render(
        self,
        reasoning_field: Option<&'static str>,
        messages: &mut Vec<ChatMessage<'s>>,
        losses: &mut LossRecorder,
    ) -> Result<(), Refusal> {
        let mut reasoning = None;
        for part in &self.reasoning {
            append(&mut reasoning, "\n\n", &part.text);
        }
        let reasoning = reasoning_field.zip(reasoning.map(|text| Cow::Owned(text.into_owned())));
        let at = messages.len();
        let (mut calls, mut media) = (Vec::with_capacity(self.calls.len()), Vec::new());
        for call in self.calls {
            let id = Cow::Borrowed(call.wire_id);
            let function = FunctionCall { name: call.name, arguments: call.arguments };
            calls.push(ToolCall { id: id.clone(), function });
            let content = if let Some(result) = call.result {
                for part in result.media {
                    let text = Cow::Owned(format!("From the result of call {id}:"));
                    media.extend([ChatPart::Text { text }, part]);
                }
                result.content
            } else {
                losses.record(Loss::OutputInvented, call.wire_id, &call.location.path())?;
                Content::Text(Cow::Borrowed(MISSING_OUTPUT))
            };
            messages.push(ChatMessage::Tool { call_id: id, content });
        }
        let text = self.text.filter(|text| !text.is_empty());
        let content = if self.refusals.is_empty() {
            let nothing_else = calls.is_empty().then_some(Cow::Borrowed(""));
            text.or(nothing_else).map(Content::Text)
        } else {
            let text = text.map(|text| ChatPart::Text { text });
            let refusals = self.refusals.into_iter().map(|refusal| ChatPart::Refusal { refusal });
            Some(Content::Parts(text.into_iter().chain(refusals).collect()))
        };
        let tool_messages = messages.split_off(at);
        messages.push(ChatMessage::Assistant { content, reasoning, calls });
        messages.extend(tool_messages);
        if !media.is_empty() {
            messages.push(ChatMessage::Plain { role: "user", content: Content::Parts(media) });
        }
        Ok(())
    }
}
