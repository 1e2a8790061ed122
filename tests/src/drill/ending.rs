//! How a response ends: complete, in an honest error, or neither.

use serde_json::Value;

use super::client::Shape;
use crate::http::{Answer, text_of};

/// The end of a response, as its client understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is a complete answer with this text.
    Whole(String),
    /// It is an answer that says that it was ended at a limit.
    Incomplete,
    /// It is an error status with an error body, or a stream that ends in the error event of its API.
    Error,
    /// It is neither; the text describes it.
    Dishonest(String),
}

impl Ending {
    /// Returns how a response to a request of this shape ends.
    pub(super) fn of(shape: Shape, answer: &Answer) -> Self {
        let ending = match (answer.status, shape.is_stream(), shape.is_chat()) {
            (200, false, _) => of_plain(&answer.body),
            (200, true, true) => of_chat_stream(answer),
            (200, true, false) => of_responses_stream(answer),
            (500.., ..) => is_error(&answer.body).then_some(Self::Error),
            _ => None,
        };
        ending.unwrap_or_else(|| {
            let body = String::from_utf8_lossy(&answer.body);
            let end = body.char_indices().nth_back(400).map_or(0, |(index, _)| index);
            Self::Dishonest(format!("{shape:?}: {} …{}", answer.status, &body[end..]))
        })
    }
}

fn is_error(json: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    value["error"]["message"].is_string() && value["error"]["type"].is_string()
}

fn of_plain(json: &[u8]) -> Option<Ending> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let choice = &value["choices"][0];
    if choice["finish_reason"] == "length" || value["status"] == "incomplete" {
        return Some(Ending::Incomplete);
    }
    let text = if choice["finish_reason"].is_string() {
        &choice["message"]["content"]
    } else if value["status"] == "completed" {
        &value["output"][0]["content"][0]["text"]
    } else {
        return None;
    };
    Some(Ending::Whole(text.as_str()?.to_owned()))
}

/// A stream that breaks ends in an event with an error, and has no end marker.
fn of_chat_stream(answer: &Answer) -> Option<Ending> {
    let text = std::str::from_utf8(&answer.body).ok()?;
    let events: Vec<_> = text.split_terminator("\n\n").collect();
    let last = events.last()?.strip_prefix("data: ")?;
    let marked = text.matches("[DONE]").count();
    match last {
        "[DONE]" if marked == 1 => {
            let is_finished = events.iter().any(|event| event.contains("\"finish_reason\":\""));
            let is_incomplete =
                events.iter().any(|event| event.contains("\"finish_reason\":\"length\""));
            (is_finished && !text.contains("\"error\"")).then(|| {
                if is_incomplete { Ending::Incomplete } else { Ending::Whole(text_of(&events)) }
            })
        }
        _ => (marked == 0 && is_error(last.as_bytes())).then_some(Ending::Error),
    }
}

/// A stream has one terminal event, which is the last one before the end marker.
fn of_responses_stream(answer: &Answer) -> Option<Ending> {
    const TERMINAL: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];
    let text = std::str::from_utf8(&answer.body).ok()?;
    let text = text.strip_suffix("data: [DONE]\n\n").unwrap_or(text);
    let events = || text.split_terminator("\n\n");
    let kind = |event: &str| event.lines().next()?.strip_prefix("event: ").map(str::to_owned);
    let terminal = |event: &&str| kind(event).is_some_and(|kind| TERMINAL.contains(&&*kind));
    if events().filter(terminal).count() != 1 {
        return None;
    }
    let last = events().last().filter(terminal)?;
    let data = last.lines().find_map(|line| line.strip_prefix("data: "))?;
    let response = serde_json::from_str::<Value>(data).ok()?["response"].take();
    if kind(last)? == "response.failed" {
        return response["error"]["message"].is_string().then_some(Ending::Error);
    }
    if kind(last)? == "response.incomplete" {
        return Some(Ending::Incomplete);
    }
    let text = response["output"][0]["content"][0]["text"].as_str()?;
    Some(Ending::Whole(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn check(shape: Shape, status: u16, body: &str, expected: Option<&Ending>) {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let ending = Ending::of(shape, &Answer { status, headers: HeaderMap::new(), body });
        match expected {
            Some(expected) => assert_eq!(ending, *expected),
            None => assert!(matches!(ending, Ending::Dishonest(_)), "{ending:?}"),
        }
    }

    #[test]
    fn an_answer_is_whole_or_an_error_or_dishonest() {
        let whole = Ending::Whole("hi".to_owned());
        let error = r#"{"error":{"message":"m","type":"t"}}"#;
        let plain = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
        check(Shape::Chat, 200, plain, Some(&whole));
        let limited = plain.replace("stop", "length");
        check(Shape::Chat, 200, &limited, Some(&Ending::Incomplete));
        check(Shape::Chat, 502, error, Some(&Ending::Error));
        check(Shape::Chat, 200, error, None);
        check(Shape::Chat, 200, &plain[..20], None);
        check(Shape::Chat, 502, "<html>", None);
        check(Shape::Chat, 400, error, None);

        let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
        let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        let (done, failed) = ("data: [DONE]\n\n", format!("data: {error}\n\n"));
        let stream = |parts: &[&str], expected| {
            check(Shape::ChatStream, 200, &parts.concat(), expected);
        };
        stream(&[delta, finish, done], Some(&whole));
        stream(&[delta, &finish.replace("stop", "length"), done], Some(&Ending::Incomplete));
        stream(&[delta, &failed], Some(&Ending::Error));
        stream(&[delta, finish], None);
        stream(&[delta, done], None);
        stream(&[delta, finish, &failed, done], None);

        let end = |kind: &str, response: &str| {
            format!("event: response.{kind}\ndata: {{\"response\":{response}}}\n\n")
        };
        let created = end("created", "{}");
        let completed = end("completed", r#"{"output":[{"content":[{"text":"hi"}]}]}"#);
        let failed = end("failed", r#"{"error":{"message":"m"}}"#);
        let stream = |parts: &[&str], expected| {
            check(Shape::ResponsesStream, 200, &parts.concat(), expected);
        };
        stream(&[&created, &completed], Some(&whole));
        stream(&[&created, &end("incomplete", "{}")], Some(&Ending::Incomplete));
        stream(&[&created, &failed], Some(&Ending::Error));
        stream(&[&created], None);
        stream(&[&created, &failed, &completed], None);
    }
}
