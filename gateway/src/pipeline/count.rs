//! Counts tokens where an upstream does not say how many there were.
//!
//! With the o200k tokenizer, and the overheads that OpenAI documents for its chat format: a count,
//! not a guess, but other models cut text differently, and the record says `counted`. Takes time in
//! proportion to the text, so never on a thread that serves requests.

use std::ops::AddAssign;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::meter::Produced;
use domain::usage::{Tokens, Usage};

/// Tokens that each message costs beside its text.
const PER_MESSAGE: u64 = 3;
/// Tokens that begin every answer.
const PER_ANSWER: u64 = 3;

/// How many counts run at once: each has a core to itself for as long as it lasts.
const AT_ONCE: usize = 2;

/// Counts on threads of their own, a few at a time.
#[derive(Clone)]
pub struct Counter {
    slots: Arc<Semaphore>,
}

/// A count of a whole request under way, given up if it is dropped; it gives `None` if it panicked.
pub type Counting = AbortOnDropHandle<Option<Usage>>;
/// A count of a piece of an answer under way, likewise.
pub type PieceCount = AbortOnDropHandle<Option<TextTokens>>;
/// A count of a request's input under way, likewise.
pub type InputCount = AbortOnDropHandle<Option<InputTokens>>;

/// The tokens of text that an answer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextTokens {
    /// All of them.
    pub output: u64,
    /// Those that are reasoning.
    pub reasoning: u64,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputTokens {
    /// Those of its text.
    pub text: u64,
    /// Whether it is nothing but text: what an image, a file or a recording takes is not counted.
    pub is_all_text: bool,
}

/// What is known of an answer whose rest is to be counted.
pub struct Before {
    /// The request.
    pub input: Input,
    /// The tokens of the text that was counted.
    pub counted: TextTokens,
    /// The count of a piece that is under way.
    pub piece: Option<PieceCount>,
}

/// What is known of a request's input.
pub enum Input {
    /// Its count.
    Counted(u64),
    /// Its body.
    Body(Bytes),
}

impl Default for Counter {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Counter {
    /// Counts the rest of an answer and what came before it; `None` if that panicked.
    pub async fn count(self, before: Before, rest: Produced) -> Option<Usage> {
        let Before { input, mut counted, piece } = before;
        if let Some(piece) = piece {
            counted += piece.await.ok()??;
        }
        self.run(move || {
            let input = match input {
                Input::Counted(tokens) => tokens,
                Input::Body(body) => count_request(&body).text,
            };
            counted += rest.count();
            Usage {
                input: Tokens(input),
                cached: None,
                output: Tokens(counted.output),
                reasoning: Some(Tokens(counted.reasoning)),
            }
        })
        .await
    }

    /// Counts a piece of an answer; `None` if that panicked.
    pub async fn count_piece(self, piece: Produced) -> Option<TextTokens> {
        self.run(move || piece.count()).await
    }

    /// Counts a request; `None` if that panicked.
    pub async fn count_input(self, body: Bytes) -> Option<InputTokens> {
        self.run(move || count_request(&body)).await
    }

    async fn run<T: Send + 'static>(self, count: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let slot = self.slots.acquire_owned().await.expect("nobody closes it");
        let counting = tokio::task::spawn_blocking(move || {
            let counted = count();
            drop(slot);
            counted
        });
        counting.await.ok()
    }
}

impl AddAssign for TextTokens {
    fn add_assign(&mut self, more: Self) {
        self.output = self.output.saturating_add(more.output);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
    }
}

/// How much text a request's body holds, in bytes: all of it but for the data of images and files.
pub fn text_bytes(body: &[u8]) -> u64 {
    static MARK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b";base64,"));
    let data: usize = MARK
        .find_iter(body)
        .map(|at| {
            let data = &body[at + MARK.needle().len()..];
            memchr::memchr(b'"', data).unwrap_or(data.len())
        })
        .sum();
    body.len().saturating_sub(data) as u64
}

fn count_request(body: &[u8]) -> InputTokens {
    #[derive(Deserialize)]
    struct Request<'a> {
        messages: Vec<Map<String, Value>>,
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
    }
    let Ok(request) = serde_json::from_slice::<Request<'_>>(body) else {
        // nested too deeply to be read, or no chat request: all of it is text
        return InputTokens { text: tokens(&String::from_utf8_lossy(body)), is_all_text: false };
    };
    let mut is_all_text = true;
    let messages: u64 = request
        .messages
        .iter()
        .map(|message| {
            let text: u64 = message
                .iter()
                .map(|(key, value)| match key.as_str() {
                    "tool_calls" => tokens(&text_in(value)),
                    "content" | "reasoning_content" | "name" | "role" => {
                        is_all_text &= is_text(value);
                        tokens(&content_text(value))
                    }
                    _ => 0,
                })
                .sum();
            PER_MESSAGE + text
        })
        .sum();
    let tools = request.tools.map_or(0, |tools| tokens(tools.get()));
    InputTokens { text: messages + tools + PER_ANSWER, is_all_text }
}

/// Whether a message's content is nothing but text.
fn is_text(value: &Value) -> bool {
    value
        .as_array()
        .is_none_or(|parts| parts.iter().all(|part| part.get("text").is_some_and(Value::is_string)))
}

/// A message's text: a string, or the text parts of an array.
fn content_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

/// The text in a value of tool calls, or of a shape that is not known; images are none.
pub(super) fn text_in(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_in).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| {
                matches!(key.as_str(), "function" | "name" | "arguments" | "text" | "thinking")
            })
            .map(|(_, value)| text_in(value))
            .collect(),
        _ => String::new(),
    }
}

/// Counts the tokens of a text.
pub(super) fn tokens(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    bpe_openai::o200k_base().count(text) as u64
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    fn count(body: &'static [u8], produced: Produced) -> Usage {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let input = Input::Body(Bytes::from_static(body));
        let before = Before { input, counted: TextTokens::default(), piece: None };
        runtime.block_on(Counter::default().count(before, produced)).unwrap()
    }

    #[test]
    fn counts_what_was_sent_and_produced() {
        let body = br#"{"model":"m","messages":[{"role":"user","content":"hello world"},
            {"role":"user","content":[{"type":"text","text":"hello world"},{"type":"image_url"}]}]}"#;
        let produced = Produced {
            output: ["hello world", "hello", " world"].map(str::to_owned).to_vec(),
            reasoning: vec!["hello".to_owned()],
        };
        let usage = count(body, produced);
        assert_eq!(usage.input, Tokens(2 * (3 + 1 + 2) + 3));
        assert_eq!(usage.output, Tokens(2 + 1 + 2));
        assert_eq!(usage.reasoning, Some(Tokens(1)));
        assert!(!count_request(body).is_all_text);
        assert!(count_request(br#"{"messages":[{"content":[{"text":"a"}]}]}"#).is_all_text);
    }

    #[test]
    fn of_what_is_not_known_the_text_counts() {
        let text = |json: &str| text_in(&serde_json::from_str(json).unwrap());
        let image = r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]"#;
        assert_eq!(text(image), "");
        let thought = r#"[{"type":"thinking","thinking":[{"type":"text","text":"hello world"}]}]"#;
        assert_eq!(text(thought), "hello world");
    }

    #[tokio::test]
    async fn a_rest_is_counted_with_what_came_before() {
        let produced =
            |text: &str| Produced { output: vec![text.to_owned()], ..Produced::default() };
        let counter = Counter::default();
        let body = Bytes::from_static(br#"{"messages":[{"content":"hello"}]}"#);
        let piece = counter.clone().count_piece(produced("hello"));
        let piece = Some(AbortOnDropHandle::new(TaskTracker::new().spawn(piece)));
        let earlier = TextTokens { output: 10, reasoning: 4 };
        let before = Before { input: Input::Body(body.clone()), counted: earlier, piece };
        let usage = counter.clone().count(before, produced(" world")).await.unwrap();
        assert_eq!((usage.input, usage.output), (Tokens(3 + 1 + 3), Tokens(12)));
        assert_eq!(usage.reasoning, Some(Tokens(4)));
        let input = counter.clone().count_input(body).await.unwrap();
        assert_eq!(input, InputTokens { text: 7, is_all_text: true });
        let before = Before { input: Input::Counted(input.text), counted: earlier, piece: None };
        let usage = counter.count(before, Produced::default()).await.unwrap();
        assert_eq!((usage.input, usage.output), (Tokens(7), Tokens(10)));
    }

    #[test]
    fn what_is_nested_too_deeply_to_be_read_is_counted_all_the_same() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        for body in [
            format!(r#"{{"messages":[],"tools":[{deep}]}}"#),
            format!(r#"{{"messages":[{deep}]}}"#),
        ] {
            assert!(count_request(body.as_bytes()).text > 500);
        }
    }

    #[test]
    fn the_data_of_images_is_no_text() {
        let body = br#"{"url":"data:image/png;base64,AAAABBBB"},{"url":"data:;base64,CC"}"#;
        assert_eq!(text_bytes(body), body.len() as u64 - 10);
        assert_eq!(text_bytes(b"hello;base64,world"), 13);
        assert_eq!(text_bytes(b""), 0);
    }

    #[test]
    fn an_empty_body_counts_nothing() {
        assert_eq!(count(b"", Produced::default()).total(), Tokens(0));
    }
}
