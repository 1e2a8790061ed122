//! Counts tokens where an upstream does not say how many there were.
//!
//! With the o200k tokenizer, and the overheads that OpenAI documents for its chat format: a count,
//! not a guess, but other models cut text differently, and the record says `counted`. Takes time in
//! proportion to the text, so never on a thread that serves requests.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::meter::Produced;
use crate::domain::usage::{Tokens, Usage};
use crate::wire::text::decode;

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

/// A count under way, given up if it is dropped; it gives `None` if it panicked.
pub type Counting = AbortOnDropHandle<Option<Usage>>;

/// What a piece of an answer is counted after.
pub enum Before {
    /// Nothing but its request, whose body this is.
    Request(Bytes),
    /// The request and earlier pieces.
    Pieces(Counting),
}

impl Default for Counter {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Counter {
    /// Counts a piece of an answer and all that came before it; `None` if that panicked.
    pub async fn count(self, before: Before, produced: Produced) -> Option<Usage> {
        let (body, earlier) = match before {
            Before::Request(body) => (Some(body), Usage::default()),
            Before::Pieces(counting) => (None, counting.await.ok()??),
        };
        let slot = self.slots.acquire_owned().await.expect("nobody closes it");
        let counting = tokio::task::spawn_blocking(move || {
            let input = body.map_or(earlier.input, |body| Tokens(count_request(&body)));
            let (output, reasoning) = count_produced(&produced);
            drop(slot);
            Usage {
                input,
                cached: None,
                output: Tokens(earlier.output.0 + output),
                reasoning: Some(Tokens(earlier.reasoning.unwrap_or_default().0 + reasoning)),
            }
        });
        counting.await.ok()
    }
}

/// Counts what was produced: all of it, and the reasoning in it.
fn count_produced(produced: &Produced) -> (u64, u64) {
    let reasoning = tokens(&decode(&produced.reasoning));
    let calls: u64 = produced.calls.texts().map(|text| tokens(&text)).sum();
    let content = tokens(&decode(&produced.content)) + count_other(&produced.other);
    (content + calls + reasoning, reasoning)
}

/// Counts the text in values of shapes that are not known, one after another; images are none.
fn count_other(values: &str) -> u64 {
    let values = serde_json::Deserializer::from_str(values).into_iter::<Value>();
    values.map_while(Result::ok).map(|value| tokens(&text_of(&value))).sum()
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

fn count_request(body: &[u8]) -> u64 {
    #[derive(Deserialize)]
    struct Request<'a> {
        messages: Vec<Map<String, Value>>,
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
    }
    let Ok(request) = serde_json::from_slice::<Request<'_>>(body) else {
        // nested too deeply to be read: all of it is text
        return tokens(&String::from_utf8_lossy(body));
    };
    let messages: u64 = request
        .messages
        .iter()
        .map(|message| {
            let text: u64 = message
                .iter()
                .map(|(key, value)| match key.as_str() {
                    "tool_calls" => tokens(&text_of(value)),
                    "content" | "reasoning_content" | "name" | "role" => {
                        tokens(&content_text(value))
                    }
                    _ => 0,
                })
                .sum();
            PER_MESSAGE + text
        })
        .sum();
    let tools = request.tools.map_or(0, |tools| tokens(tools.get()));
    messages + tools + PER_ANSWER
}

/// A message's text: a string, or the text parts of an array.
fn content_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| {
                matches!(key.as_str(), "function" | "name" | "arguments" | "text" | "thinking")
            })
            .map(|(_, value)| text_of(value))
            .collect(),
        _ => String::new(),
    }
}

fn tokens(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    bpe_openai::o200k_base().count(text) as u64
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::wire::call::CallPiece;
    use crate::wire::chunk::AnswerForm;

    fn count(body: &'static [u8], produced: Produced) -> Usage {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let before = Before::Request(Bytes::from_static(body));
        runtime.block_on(Counter::default().count(before, produced)).unwrap()
    }

    #[test]
    fn counts_what_was_sent_and_produced() {
        let body = br#"{"model":"m","messages":[{"role":"user","content":"hello world"},
            {"role":"user","content":[{"type":"text","text":"hello world"},{"type":"image_url"}]}]}"#;
        let mut produced = Produced {
            content: r"hello\u0020world".to_owned(),
            reasoning: "hello".to_owned(),
            ..Produced::default()
        };
        let calls = r#"[{"function":{"name":"hello","arguments":" world"}}]"#;
        for call in CallPiece::read_list(serde_json::from_str(calls).unwrap()).unwrap() {
            produced.calls.add(&call, AnswerForm::Whole);
        }
        let usage = count(body, produced);
        assert_eq!(usage.input, Tokens(2 * (3 + 1 + 2) + 3));
        assert_eq!(usage.output, Tokens(2 + 1 + 2));
        assert_eq!(usage.reasoning, Some(Tokens(1)));
    }

    #[test]
    fn of_what_is_not_known_the_text_counts() {
        let other = r#"[][{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]
            [{"type":"thinking","thinking":[{"type":"text","text":"hello world"}]}]{}"#;
        assert_eq!(count_other(other), 2);
    }

    #[tokio::test]
    async fn a_piece_is_counted_with_what_came_before() {
        let produced =
            |content: &str| Produced { content: content.to_owned(), ..Produced::default() };
        let counter = Counter::default();
        let body = Bytes::from_static(br#"{"messages":[{"content":"hello"}]}"#);
        let first = counter.clone().count(Before::Request(body), produced("hello"));
        let first = AbortOnDropHandle::new(TaskTracker::new().spawn(first));
        let usage = counter.count(Before::Pieces(first), produced(" world")).await.unwrap();
        assert_eq!((usage.input, usage.output), (Tokens(3 + 1 + 3), Tokens(2)));
    }

    #[test]
    fn what_is_nested_too_deeply_to_be_read_is_counted_all_the_same() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        for body in [
            format!(r#"{{"messages":[],"tools":[{deep}]}}"#),
            format!(r#"{{"messages":[{deep}]}}"#),
        ] {
            assert!(count_request(body.as_bytes()) > 500);
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
