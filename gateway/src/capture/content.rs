//! The text of a request and of its answer, for the spans of a key that has opted in.
//!
//! Reads the chat request and the chat answer of the upstream, which both endpoints have. Only text is kept, at most
//! [`MAX_TEXT_BYTES`] of each; images, reasoning and tool calls are left out. While the request is in progress, the text and
//! what is buffered count as working memory; afterwards, the text has a permit. Secrets are removed from it when it is
//! exported ([`without_secrets`]).

mod answer;
mod rendering;

use std::collections::VecDeque;
use std::sync::Arc;

use secrecy::SecretString;

use self::answer::Answer;
pub use self::rendering::{Messages, without_secrets};
use crate::memory_budget::MemoryGuard;
use domain::key::KeyDigest;
use domain::traced_content::{ContentBudget, TracedContent, TracedText};
use domain::wire::json::{JsonReader, Malformed, RawJson, as_utf8};
use domain::wire::text::{text_of, unescape_into};

/// The maximum length of the text of a request, and of an answer, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// What each message counts in addition to its text. Bounds the number of messages.
const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// The number of messages of a request that can be kept.
const MAX_MESSAGES: usize = MAX_TEXT_BYTES / MESSAGE_OVERHEAD_BYTES;
/// The length of the longest JSON escape, in bytes. Such an escape stands for at least one byte of text.
const MAX_ESCAPE_BYTES: usize = "\\u0000".len();
/// The steps in which working memory is taken, in bytes, so that few reads touch the counters that all requests share.
const MEMORY_STEP: usize = 16 * 1024;

/// The text of one request.
pub(super) struct Content {
    /// The key that has opted in.
    key: KeyDigest,
    /// In the order of the conversation.
    input: Vec<Text>,
    has_input: bool,
    answer: Answer,
    /// The working memory of the text and of what is buffered.
    memory: MemoryGuard,
    /// Bounds the text that waits for its export.
    waiting: Arc<ContentBudget>,
}

/// A message, or one choice of an answer, while it is read.
struct Text {
    text: TracedText,
    /// A high surrogate whose low surrogate comes with the next event.
    high: Option<u16>,
}

// === impl Content ===

impl Content {
    /// Creates the text of a request of `key`, which takes `memory` while the request is in progress, and a part of
    /// `waiting` afterwards.
    pub(super) fn new(key: KeyDigest, memory: MemoryGuard, waiting: Arc<ContentBudget>) -> Self {
        let (input, answer) = (Vec::new(), Answer::default());
        Self { key, input, has_input: false, answer, memory, waiting }
    }

    /// Reads a chat request, which is in `pieces`. The newest messages are kept. Has no effect once a request was read:
    /// further attempts send the same messages. Nor has it if there is no memory for a copy.
    pub(super) fn read_request(&mut self, pieces: &[&[u8]]) {
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        // The joined pieces, and the joined parts of a message.
        if self.has_input || !self.count(2 * length) {
            return;
        }
        self.has_input = true;
        self.input = read_messages(&pieces.concat());
        drop(self.memory.split_off(self.memory.bytes()));
        if !self.count(0) {
            self.input = Vec::new();
        }
    }

    /// Begins to read a chat answer, in place of one of an earlier attempt.
    pub(super) fn begin_answer(&mut self) {
        self.answer = Answer::default();
    }

    /// Reads the next bytes of the answer. The rest is not read if there is no memory for it.
    pub(super) fn read_answer(&mut self, bytes: &[u8]) {
        self.answer.push(bytes);
        // Buffers double.
        if !self.count(self.answer.buffered().next_power_of_two()) {
            self.answer.abandon();
        }
    }

    /// Returns the text, which may contain `secrets`; `None` if there is none, or if too much waits.
    pub(super) fn finish(mut self, secrets: Vec<SecretString>) -> Option<TracedContent> {
        self.answer.finish();
        let Self { key, input, answer, waiting, has_input: _, memory: _ } = self;
        let output = answer.into_choices();
        let texts = || input.iter().chain(&output);
        texts().next()?;
        let permit = waiting.reserve(texts().map(Text::bytes).sum())?;
        let [input, output] =
            [input, output].map(|texts| texts.into_iter().map(Text::into_traced).collect());
        Some(TracedContent { key, input, output, secrets, permit })
    }

    /// Counts the text and `buffered` bytes as working memory. Returns whether there is as much.
    fn count(&mut self, buffered: usize) -> bool {
        let texts = self.input.iter().chain(self.answer.choices()).map(Text::bytes).sum::<usize>();
        self.memory.try_grow_to((2 * texts + buffered).next_multiple_of(MEMORY_STEP))
    }
}

/// Returns the newest messages of a chat request, in the order of the conversation.
fn read_messages(body: &[u8]) -> Vec<Text> {
    let mut input = Vec::new();
    let mut room = MAX_TEXT_BYTES;
    for message in newest_messages(body).unwrap_or_default().into_iter().rev() {
        let role = message.member("role").and_then(RawJson::string).unwrap_or_default();
        let mut text = Text::new(&role[..role.floor_char_boundary(MESSAGE_OVERHEAD_BYTES)]);
        room = room.saturating_sub(MESSAGE_OVERHEAD_BYTES);
        room -= text.push_escaped(&text_of(message.member("content")), room);
        // Also if it fits exactly: older messages may be missing.
        text.text.is_cut |= room == 0;
        input.push(text);
        if room == 0 {
            break;
        }
    }
    input.reverse();
    input
}

/// Returns the last messages of a chat request, as many as can be kept; `None` if it is no chat request.
fn newest_messages(body: &[u8]) -> Option<VecDeque<RawJson<'_>>> {
    let mut newest = VecDeque::new();
    let mut json = JsonReader::new(as_utf8(body)?);
    let read = json.object::<Malformed>(|json, name| {
        if name != "messages" {
            return json.value().map(drop);
        }
        json.array(|json| {
            if newest.len() == MAX_MESSAGES {
                newest.pop_front();
            }
            newest.push_back(json.value()?);
            Ok(())
        })
    });
    read.ok().map(|()| newest)
}

// === impl Text ===

impl Text {
    /// Returns the text, which takes no more memory than its length, because that is what its permit counts.
    fn into_traced(self) -> TracedText {
        let mut text = self.text;
        text.content.shrink_to_fit();
        text
    }

    fn new(role: &str) -> Self {
        let (role, content) = (role.to_owned(), String::new());
        let text = TracedText { role, content, is_cut: false, finish: None, has_calls: false };
        Self { text, high: None }
    }

    /// Appends as much of the JSON text `escaped` as fits into `room`. Returns the number of bytes.
    fn push_escaped(&mut self, escaped: &str, room: usize) -> usize {
        let Self { text: TracedText { content, is_cut, .. }, high } = self;
        if *is_cut {
            return 0;
        }
        let before = content.len();
        // More than fits, even if every byte is escaped, so that a long text takes no memory that stays with the string.
        let enough = escaped.floor_char_boundary((room + 2) * MAX_ESCAPE_BYTES);
        unescape_into(&escaped[..enough], high, content);
        let end = content.floor_char_boundary(before + room);
        *is_cut = end < content.len();
        content.truncate(end);
        end - before
    }

    /// Returns the memory of the text, in bytes, which is about its length as JSON.
    fn bytes(&self) -> usize {
        self.text.role.len() + self.text.content.len() + MESSAGE_OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::answer::{MAX_BUFFERED_BYTES, MAX_CHOICES};
    use super::*;
    use crate::memory_budget::MemoryBudget;
    use domain::id::AccountId;

    const KEY: &str = "sk-tg-9f2c0123456789abcdef";

    /// A part of an answer that never ends.
    const UNENDED: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}";

    fn content_with(memory: &Arc<MemoryBudget>, waiting: &Arc<ContentBudget>) -> Content {
        let guard = memory.guard(AccountId(Uuid::nil()));
        let mut content = Content::new(KeyDigest::of(KEY), guard, waiting.clone());
        content.read_request(&[br#"{"messages":[{"content":"#, br#""hello"}]}"#]);
        content.begin_answer();
        content
    }

    /// Returns the messages of a request and its answer.
    fn content(request: &str, answer: &[&str]) -> [Option<String>; 2] {
        let budget = MemoryBudget::new(64 << 20, 64 << 20);
        let guard = budget.guard(AccountId(Uuid::nil()));
        let mut content = Content::new(KeyDigest::of(KEY), guard, ContentBudget::new(1 << 20));
        content.read_request(&[request.as_bytes()]);
        content.begin_answer();
        for bytes in answer {
            content.read_answer(bytes.as_bytes());
        }
        let content = content.finish(vec!["upstream/secret".into()]).and_then(without_secrets);
        content.map_or_else(Default::default, |it| [it.input, it.output])
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
        let [input, output] = content(request, &[&answer[..9], &answer[9..]]);
        assert_eq!(
            input.unwrap(),
            r#"[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},{"role":"user","parts":[{"type":"text","content":"a\nb"}]},{"role":"assistant","parts":[]}]"#
        );
        assert_eq!(
            output.unwrap(),
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
        let messages = content(&request, &events.each_ref().map(String::as_str));
        let [input, output] = messages.map(Option::unwrap);
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
        for json in content(&request, &events).map(Option::unwrap) {
            assert!(json.len() > MAX_TEXT_BYTES - 200 && json.len() < MAX_TEXT_BYTES + 200);
            assert!(json.contains("é[truncated]") && !json.contains("oldest"), "{json}");
        }
        // Many short messages, and many choices.
        let request = format!(r#"{{"messages":[{}]}}"#, vec![message("x"); 10_000].join(","));
        let events: Vec<_> = (0..1_000).map(|index| chunk(index, "x")).collect();
        let events: Vec<_> = events.iter().map(String::as_str).collect();
        let [input, output] = content(&request, &events).map(Option::unwrap);
        assert!(input.len() < 2 * MAX_TEXT_BYTES);
        assert_eq!(output.matches("assistant").count(), MAX_CHOICES);
        // Escapes, of which a text takes no more memory than what is kept.
        let escaped = "\\u0041".repeat(1_000_000);
        let texts = read_messages(format!(r#"{{"messages":[{}]}}"#, message(&escaped)).as_bytes());
        let [text] = &texts[..] else { panic!("one message") };
        let text = &text.text.content;
        assert_eq!(text.len(), MAX_TEXT_BYTES - MESSAGE_OVERHEAD_BYTES);
        assert!(text.capacity() < 3 * MAX_TEXT_BYTES, "{}", text.capacity());
    }

    #[test]
    fn what_is_no_chat_has_no_text() {
        for (request, answer) in
            [("", ""), ("{", "{"), ("[]", "[]"), ("{\"messages\":1}", "data: [DONE]\n\n")]
        {
            assert_eq!(content(request, &[answer]), [None, None]);
        }
        let long = format!(
            "{{\"choices\":[{{\"message\":{{\"content\":\"{}\"}}}}]}}",
            "x".repeat(MAX_BUFFERED_BYTES)
        );
        assert_eq!(content("", &[&long]), [None, None]);
    }

    #[test]
    fn the_beginning_of_a_secret_is_removed_from_an_answer_that_is_not_complete() {
        let end = |reason: &str| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n"
            )
        };
        let text = chunk(0, "it is upstream/");
        for (end, shown) in [
            (String::new(), "it is [redacted]"),
            (end("length"), "it is [redacted]"),
            (end("stop"), "it is upstream/"),
        ] {
            let [_, output] = content("", &[&text, &end]);
            assert!(output.unwrap().contains(&format!("\"{shown}\"")), "{end}");
        }
    }

    #[test]
    fn a_tool_call_is_the_reason_of_a_choice_that_has_one() {
        let answer = r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
        let [_, output] = content("", &[answer]);
        let expected = r#"[{"role":"assistant","parts":[],"finish_reason":"tool_call"}]"#;
        assert_eq!(output.unwrap(), expected);
    }

    #[test]
    fn a_long_event_is_not_read_and_cuts_the_text() {
        let long = "x".repeat(MAX_BUFFERED_BYTES);
        let [_, output] = content("", &[&chunk(0, "before"), UNENDED, &long, &chunk(0, "after")]);
        let output = output.unwrap();
        assert!(output.contains("\"before[truncated]\""), "{output}");
    }

    #[test]
    fn what_is_buffered_counts_as_working_memory_until_the_end() {
        let (memory, waiting) = (MemoryBudget::new(1 << 20, 1 << 20), ContentBudget::new(1 << 20));
        let mut content = content_with(&memory, &waiting);
        assert!(memory.held() > 0 && memory.held() < 100_000, "{}", memory.held());
        content.read_answer(UNENDED.as_bytes());
        content.read_answer(&vec![b'x'; 300_000]);
        assert!(memory.held() >= 300_000, "{}", memory.held());
        assert!(content.finish(Vec::new()).is_some());
        assert_eq!(memory.held(), 0);
        // Without memory, nothing is read.
        let none = MemoryBudget::new(0, 0);
        let mut content = content_with(&none, &waiting);
        content.read_answer(chunk(0, "hello").as_bytes());
        assert!(content.input.is_empty() && content.answer.buffered() == 0);
    }

    #[test]
    fn a_text_is_returned_only_while_there_is_room_for_it() {
        let (memory, waiting) = (MemoryBudget::new(1 << 20, 1 << 20), ContentBudget::new(100));
        let finish = || content_with(&memory, &waiting).finish(Vec::new());
        let first = finish().unwrap();
        assert!(finish().is_none());
        // The messages take the place of the text.
        let messages = without_secrets(first).unwrap();
        assert!(messages.input.as_ref().is_some_and(|it| it.len() > 30) && finish().is_none());
        drop(messages);
        assert!(finish().is_some());
    }
}
