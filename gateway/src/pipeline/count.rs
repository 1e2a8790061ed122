//! Counts tokens where an upstream did not say how many there were.
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

use super::meter::Produced;
use crate::domain::usage::{Tokens, Usage};

/// Tokens that each message costs beside its text.
const PER_MESSAGE: u64 = 3;
/// Tokens that begin every answer.
const PER_ANSWER: u64 = 3;

/// How many counts run at once: each has a core to itself for as long as it lasts.
const AT_ONCE: usize = 2;

/// A tool call, as far as its pieces are there.
#[derive(Default)]
struct Call {
    /// Its place among the calls of a stream.
    index: Option<u64>,
    name: String,
    arguments: String,
}

/// Counts on threads of their own, a few at a time.
#[derive(Clone)]
pub struct Counter {
    slots: Arc<Semaphore>,
}

impl Default for Counter {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Counter {
    /// Counts as [`count`] does; `None` if that panicked.
    pub async fn count(self, request_body: Bytes, produced: Produced) -> Option<Usage> {
        let slot = self.slots.acquire_owned().await.expect("nobody closes it");
        let counting = tokio::task::spawn_blocking(move || {
            let usage = count(&request_body, &produced);
            drop(slot);
            usage
        });
        counting.await.ok()
    }
}

/// Counts a chat request's body and what was produced for it.
pub fn count(request_body: &[u8], produced: &Produced) -> Usage {
    let reasoning = tokens(&unescape(&produced.reasoning));
    let output = tokens(&unescape(&produced.content)) + reasoning + count_other(&produced.other);
    Usage {
        input: Tokens(count_request(request_body)),
        cached: None,
        output: Tokens(output),
        reasoning: Some(Tokens(reasoning)),
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

/// Counts the raw values of an answer, a line each: tool calls, whole or in pieces, and arrays of other
/// things. In how many pieces they came makes no difference.
fn count_other(lines: &str) -> u64 {
    let (mut calls, mut text, mut sum) = (Vec::<Call>::new(), String::new(), 0);
    let values = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
    for item in values.flat_map(|value| match value {
        Value::Array(items) => items,
        value => vec![value],
    }) {
        match (item.get("function"), &item) {
            (Some(function), _) => {
                let index = item.get("index").and_then(Value::as_u64);
                let begun = calls.iter_mut().find(|it| index.is_some() && it.index == index);
                let begun = match begun {
                    Some(call) => call,
                    None => calls.push_mut(Call { index, ..Call::default() }),
                };
                begun.name.push_str(function["name"].as_str().unwrap_or_default());
                begun.arguments.push_str(function["arguments"].as_str().unwrap_or_default());
            }
            (None, Value::String(text)) => sum += tokens(text),
            (None, item) => text.push_str(&text_of(item)),
        }
    }
    let calls = calls.iter().map(|call| tokens(&call.name) + tokens(&call.arguments));
    sum + tokens(&text) + calls.sum::<u64>()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| matches!(key.as_str(), "function" | "name" | "arguments" | "text"))
            .map(|(_, value)| text_of(value))
            .collect(),
        _ => String::new(),
    }
}

fn unescape(json_text: &str) -> String {
    serde_json::from_str(&format!("\"{json_text}\"")).unwrap_or_else(|_| json_text.to_owned())
}

fn tokens(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    bpe_openai::o200k_base().count(text) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_was_sent_and_produced() {
        let body = br#"{"model":"m","messages":[{"role":"user","content":"hello world"},
            {"role":"user","content":[{"type":"text","text":"hello world"},{"type":"image_url"}]}]}"#;
        let produced = Produced {
            content: r"hello\u0020world".to_owned(),
            reasoning: "hello".to_owned(),
            other: "[{\"function\":{\"name\":\"hello\",\"arguments\":\" world\"}}]\n".to_owned(),
        };
        let usage = count(body, &produced);
        assert_eq!(usage.input, Tokens(2 * (3 + 1 + 2) + 3));
        assert_eq!(usage.output, Tokens(2 + 1 + 2));
        assert_eq!(usage.reasoning, Some(Tokens(1)));
    }

    #[test]
    fn calls_count_the_same_in_however_many_pieces_they_come() {
        let count = |lines: &[&str]| {
            let produced = Produced { other: lines.join("\n"), ..Produced::default() };
            count(b"", &produced).output
        };
        let whole = count(&[
            r#"[{"function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}},{"function":{"name":"clock","arguments":"{}"}}]"#,
        ]);
        let pieces = count(&[
            r#"[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]"#,
            r#"[{"index":1,"id":"b","function":{"name":"clock","arguments":"{}"}}]"#,
            r#"[{"index":0,"function":{"arguments":"{\"ci"}}]"#,
            r#"[{"index":0,"function":{"arguments":"ty\":\"Ro"}}]"#,
            r#"[{"index":0,"function":{"arguments":"me\"}"}}]"#,
        ]);
        let translated = count(&[r#"["weather","{\"city\":\"Rome\"}"]"#, r#"["clock","{}"]"#]);
        assert!(whole > Tokens(0));
        assert_eq!((pieces, translated), (whole, whole));
    }

    #[test]
    fn what_is_nested_too_deeply_to_be_read_is_counted_all_the_same() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        for body in [
            format!(r#"{{"messages":[],"tools":[{deep}]}}"#),
            format!(r#"{{"messages":[{deep}]}}"#),
        ] {
            assert!(count(body.as_bytes(), &Produced::default()).input > Tokens(500));
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
        assert_eq!(count(b"", &Produced::default()).total(), Tokens(0));
    }
}
