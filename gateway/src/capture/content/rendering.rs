//! The messages of a request and of its answer by the semantic conventions for generative AI, without secrets.
//!
//! Secrets are removed as from captured messages, and from the joined text of a stream, so that one which is split over
//! events is found, too.

use secrecy::SecretString;
use serde::Serialize;

use crate::capture::redaction;
use domain::traced_content::{ContentPermit, TracedContent, TracedText};
use domain::wire::finish::FinishReason;

/// What follows a text that was cut.
const CUT_MARK: &str = "[truncated]";

/// Messages as JSON, without secrets.
pub struct Messages {
    /// The messages of the request, if it has any.
    pub input: Option<String>,
    /// The answer, one message for each choice, if there is any.
    pub output: Option<String>,
    /// The part of the budget that they take.
    pub permit: ContentPermit,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    parts: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Part<'a> {
    r#type: &'a str,
    content: String,
}

/// Returns the messages of a text; `None` if too much waits for its export. Takes up to some milliseconds.
pub fn without_secrets(content: TracedContent) -> Option<Messages> {
    let TracedContent { input, output, secrets, mut permit, key: _ } = content;
    let list = |all: Vec<String>| (!all.is_empty()).then(|| format!("[{}]", all.join(",")));
    let message = |text: &TracedText| to_json(text, &secrets, text.is_cut);
    // An answer that is not complete may end in the beginning of a secret.
    let choice = |text: &TracedText| {
        let is_cut = text.is_cut || text.finish != Some(FinishReason::Complete);
        to_json(text, &secrets, is_cut)
    };
    let input = list(input.iter().map(message).collect());
    let output = list(output.iter().map(choice).collect());
    let is_reserved = permit.resize([&input, &output].into_iter().flatten().map(String::len).sum());
    is_reserved.then_some(Messages { input, output, permit })
}

/// Returns a text without `secrets`. `is_cut` says whether it may end in the beginning of one.
fn to_json(text: &TracedText, secrets: &[SecretString], is_cut: bool) -> String {
    let mut content = redaction::without_secrets(&text.content, secrets, is_cut);
    if text.is_cut {
        content.push_str(CUT_MARK);
    }
    let parts =
        if content.is_empty() { Vec::new() } else { vec![Part { r#type: "text", content }] };
    let message = Message { role: &text.role, parts, finish_reason: finish_reason(text) };
    serde_json::to_string(&message).unwrap_or_default()
}

/// Returns the name of the reason why a choice ended, by the semantic conventions.
fn finish_reason(text: &TracedText) -> Option<&'static str> {
    Some(match text.finish? {
        FinishReason::Complete | FinishReason::Empty if text.has_calls => "tool_call",
        // `Empty`: some servers send an empty reason.
        FinishReason::Complete | FinishReason::Empty => "stop",
        FinishReason::Length => "length",
        FinishReason::Filter => "content_filter",
        FinishReason::Failed => "error",
    })
}
