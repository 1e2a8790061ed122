//! The text of a request and of its answer, for the spans of a key that has opted in.
//!
//! Reads the chat request and the chat answer of the upstream, which both endpoints have. Only text is kept, at most
//! [`MAX_TEXT_BYTES`] of each; images, reasoning and tool calls are left out. Secrets are removed from it as from captured
//! messages, and from the joined text of a stream, so that one which is split over events is found, too.

use std::borrow::Cow;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::redaction;
use domain::trace::TracedContent;
use domain::wire::chunk::ChunkView;
use domain::wire::finish::FinishReason;
use domain::wire::sse::{self, Splitter};
use domain::wire::text::{text_of, unescape_into};

/// The part of the text of a request and of its answer that is kept, in bytes, each.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// What a message takes of that besides its text, which bounds their number.
const MESSAGE_BYTES: usize = 64;
/// The largest plain answer that is read, in bytes.
const MAX_PLAIN_BYTES: usize = 1024 * 1024;
/// The number of choices of which the text is kept.
const MAX_CHOICES: usize = 16;
/// What follows a text that was cut.
const CUT_MARK: &str = "[truncated]";

/// The text of one request.
#[derive(Default)]
pub(super) struct Content {
    /// In the order of the conversation.
    input: Vec<Text>,
    has_input: bool,
    answer: Answer,
}

/// A message, or one choice of an answer.
struct Text {
    role: String,
    content: String,
    is_cut: bool,
    /// The first half of a character that a stream splits over two events.
    high: Option<u16>,
    finish: Option<FinishReason>,
}

/// The answer so far.
#[derive(Default)]
struct Answer {
    /// `None` before the first byte.
    form: Option<Form>,
    texts: ChoiceTexts,
}

/// The texts of the choices of an answer.
#[derive(Default)]
struct ChoiceTexts {
    /// By the index of the choice.
    choices: Vec<(u32, Text)>,
    /// The bytes of all texts.
    bytes: usize,
}

enum Form {
    Stream(Splitter),
    Plain(Vec<u8>),
    /// It cannot be read any further.
    Broken,
}

/// A message by the semantic conventions.
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

// === impl Content ===

impl Content {
    /// Reads a chat request. The newest messages are kept. Has no effect once a request was read: further attempts send
    /// the same messages.
    pub(super) fn read_request(&mut self, body: &[u8]) {
        #[derive(Deserialize)]
        struct Request<'a> {
            #[serde(borrow)]
            messages: Vec<Message<'a>>,
        }
        #[derive(Deserialize)]
        struct Message<'a> {
            #[serde(borrow)]
            role: Option<Cow<'a, str>>,
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        if std::mem::replace(&mut self.has_input, true) {
            return;
        }
        let Ok(request) = serde_json::from_slice::<Request<'_>>(body) else { return };
        let mut room = MAX_TEXT_BYTES;
        for message in request.messages.into_iter().rev() {
            let role = message.role.as_deref().unwrap_or_default();
            let mut text = Text::new(&role[..role.floor_char_boundary(MESSAGE_BYTES)]);
            room = room.saturating_sub(MESSAGE_BYTES);
            room -= text.push_escaped(&text_of(message.content), room);
            // Also if it fits exactly: older messages may be missing.
            text.is_cut |= room == 0;
            self.input.push(text);
            if room == 0 {
                break;
            }
        }
        self.input.reverse();
    }

    /// Begins to read a chat answer, in place of one of an earlier attempt.
    pub(super) fn begin_answer(&mut self) {
        self.answer = Answer::default();
    }

    /// Reads the next bytes of the answer.
    pub(super) fn read_answer(&mut self, bytes: &[u8]) {
        self.answer.push(bytes);
    }

    /// Returns the text without `secrets`.
    pub(super) fn finish(&mut self, secrets: &[SecretString]) -> TracedContent {
        self.answer.finish();
        let message = |text: &Text| text.to_message(secrets).to_json();
        let list = |all: Vec<String>| (!all.is_empty()).then(|| format!("[{}]", all.join(",")));
        TracedContent {
            input_messages: list(self.input.iter().map(message).collect()),
            output_messages: list(
                self.answer.texts.choices.iter().map(|it| message(&it.1)).collect(),
            ),
        }
    }
}

// === impl Text ===

impl Text {
    fn new(role: &str) -> Self {
        let role = role.to_owned();
        Self { role, content: String::new(), is_cut: false, high: None, finish: None }
    }

    /// Appends as much of the JSON text `escaped` as fits into `room`. Returns the number of bytes.
    fn push_escaped(&mut self, escaped: &str, room: usize) -> usize {
        if self.is_cut {
            return 0;
        }
        let before = self.content.len();
        unescape_into(escaped, &mut self.high, &mut self.content);
        let end = self.content.floor_char_boundary(before + room);
        self.is_cut = end < self.content.len();
        self.content.truncate(end);
        end - before
    }

    fn to_message(&self, secrets: &[SecretString]) -> Message<'_> {
        let mut content = redaction::without_secrets(&self.content, secrets, self.is_cut);
        if self.is_cut {
            content.push_str(CUT_MARK);
        }
        let parts =
            if content.is_empty() { Vec::new() } else { vec![Part { r#type: "text", content }] };
        Message { role: &self.role, parts, finish_reason: self.finish.map(finish_reason) }
    }
}

impl Message<'_> {
    fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

// === impl Answer ===

impl Answer {
    fn push(&mut self, bytes: &[u8]) {
        if self.form.is_none() {
            let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            self.form = Some(match first {
                b'{' => Form::Plain(Vec::new()),
                _ => Form::Stream(Splitter::default()),
            });
        }
        let Self { form, texts } = self;
        let is_readable = match form {
            Some(Form::Stream(splitter)) => {
                splitter.push(bytes, |event| texts.read_event(event)).is_ok()
            }
            Some(Form::Plain(body)) => {
                body.extend_from_slice(bytes);
                body.len() <= MAX_PLAIN_BYTES
            }
            Some(Form::Broken) | None => true,
        };
        if !is_readable {
            *form = Some(Form::Broken);
        }
    }

    fn finish(&mut self) {
        match self.form.take() {
            Some(Form::Stream(mut splitter)) => self.texts.read_event(&splitter.finish()),
            Some(Form::Plain(body)) => self.texts.read_json(&body),
            Some(Form::Broken) | None => {}
        }
    }
}

// === impl ChoiceTexts ===

impl ChoiceTexts {
    fn read_event(&mut self, event: &[u8]) {
        if let Some(data) = sse::data(event) {
            self.read_json(&data);
        }
    }

    /// Reads a chunk or a plain answer. Others, such as the end marker of a stream, have no text.
    fn read_json(&mut self, json: &[u8]) {
        let Ok(json) = std::str::from_utf8(json) else { return };
        let Ok(chunk) = ChunkView::parse(json) else { return };
        for choice in chunk.choices() {
            let at = match self.choices.iter().position(|(index, _)| *index == choice.index) {
                Some(at) => at,
                None if self.choices.len() < MAX_CHOICES => {
                    self.choices.push((choice.index, Text::new("assistant")));
                    self.choices.len() - 1
                }
                None => continue,
            };
            let text = &mut self.choices[at].1;
            if let Some(piece) = choice.piece() {
                for raw in [piece.content, piece.refusal] {
                    let room = MAX_TEXT_BYTES - self.bytes;
                    self.bytes += text.push_escaped(&text_of(raw), room);
                }
            }
            text.finish = choice.finish().or(text.finish);
        }
    }
}

/// Returns the name of a reason by the semantic conventions.
const fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        // The second one is that of servers which do not say why.
        FinishReason::Complete | FinishReason::Empty => "stop",
        FinishReason::Length => "length",
        FinishReason::Filter => "content_filter",
        FinishReason::Failed => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-tg-9f2c0123456789abcdef";

    fn content(request: &str, answer: &[&str]) -> TracedContent {
        let mut content = Content::default();
        content.read_request(request.as_bytes());
        content.begin_answer();
        for bytes in answer {
            content.read_answer(bytes.as_bytes());
        }
        content.finish(&["upstream/secret".into()])
    }

    fn chunk(index: u32, text: &str) -> String {
        let text = serde_json::to_string(text).unwrap();
        format!(
            "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":{text}}}}}]}}\n\n"
        )
    }

    #[test]
    fn messages_have_the_form_of_the_conventions() {
        let request = r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"a\nb"},{"type":"image_url","image_url":{"url":"data:x"}}]},{"role":"assistant","content":null}]}"#;
        let answer = r#"{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}"#;
        let content = content(request, &[&answer[..9], &answer[9..]]);
        assert_eq!(
            content.input_messages.unwrap(),
            r#"[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},{"role":"user","parts":[{"type":"text","content":"a\nb"}]},{"role":"assistant","parts":[]}]"#
        );
        assert_eq!(
            content.output_messages.unwrap(),
            r#"[{"role":"assistant","parts":[{"type":"text","content":"Hello"}],"finish_reason":"stop"}]"#
        );
    }

    #[test]
    fn secrets_are_removed_even_if_a_stream_splits_them() {
        let request = format!(r#"{{"messages":[{{"role":"user","content":"my {KEY}"}}]}}"#);
        let events = [
            chunk(0, "the key sk-tg-9f2c0"),
            chunk(0, "123456789abcdef, upst"),
            chunk(0, "ream/secret."),
        ];
        let content = content(&request, &events.each_ref().map(String::as_str));
        let (input, output) = (content.input_messages.unwrap(), content.output_messages.unwrap());
        assert!(input.contains("\"my [redacted]\""), "{input}");
        assert!(output.contains("\"the key [redacted], [redacted].\""), "{output}");
    }

    #[test]
    fn texts_are_bounded_and_the_newest_messages_are_kept() {
        let message = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let messages = [message("oldest"), message(&"é".repeat(MAX_TEXT_BYTES)), message("newest")];
        let request = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let event = chunk(0, &"é".repeat(1_000));
        let events = vec![event.as_str(); 20];
        let content = content(&request, &events);
        for json in [content.input_messages.unwrap(), content.output_messages.unwrap()] {
            assert!(json.len() > MAX_TEXT_BYTES - 200 && json.len() < MAX_TEXT_BYTES + 200);
            assert!(json.contains("é[truncated]") && !json.contains("oldest"), "{json}");
        }
        // Many short messages, and many choices.
        let request = format!(r#"{{"messages":[{}]}}"#, vec![message("x"); 10_000].join(","));
        let events: Vec<_> = (0..1_000).map(|index| chunk(index, "x")).collect();
        let content =
            super::tests::content(&request, &events.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(content.input_messages.unwrap().len() < 2 * MAX_TEXT_BYTES);
        assert_eq!(content.output_messages.unwrap().matches("assistant").count(), MAX_CHOICES);
    }

    #[test]
    fn what_is_no_chat_has_no_text() {
        for (request, answer) in
            [("", ""), ("{", "{"), ("[]", "[]"), ("{\"messages\":1}", "data: [DONE]\n\n")]
        {
            let content = content(request, &[answer]);
            assert_eq!((content.input_messages, content.output_messages), (None, None));
        }
        let long = format!(
            "{{\"choices\":[{{\"message\":{{\"content\":\"{}\"}}}}]}}",
            "x".repeat(MAX_PLAIN_BYTES)
        );
        assert_eq!(content("", &[&long]).output_messages, None);
    }
}
