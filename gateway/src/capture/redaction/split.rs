//! Finds secrets that an event stream splits over its events.
//!
//! An event has a piece of text as a string at some place of its JSON, such as `choices[0].delta.content`. The pieces
//! at one place are searched as one text.

use std::fmt;
use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Removal;

/// The depth to which strings are looked for.
const MAX_DEPTH: usize = 16;
/// The length of the longest index, in bytes.
const MAX_INDEX_BYTES: usize = 10;
/// The length of the longest type of an event that is looked at, in bytes.
const MAX_TYPE_BYTES: usize = 128;

/// The strings of the events of a body, each with its place. Ranges are those of the escaped text in the body.
struct Pieces<'a> {
    body: &'a str,
    all: Vec<(Place, Range<usize>)>,
    hasher: RandomState,
}

/// The hash of the names and the indices that lead to a value, which may be long and deep.
type Place = u64;

/// The members of an object, in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

/// Returns what is to be removed from a body because `find` finds it in the joined pieces, and the incomplete event at
/// the end; nothing if the body is no event stream.
pub(super) fn removals(body: &str, find: impl Fn(&str) -> Vec<Range<usize>>) -> Vec<Removal> {
    let mut pieces = Pieces { body, all: Vec::new(), hasher: RandomState::default() };
    let mut removals = Vec::new();
    let mut at = 0;
    for line in body.split_inclusive(['\n', '\r']) {
        let range = at..at + line.len();
        at = range.end;
        let Some(data) = line.strip_prefix("data:") else { continue };
        match serde_json::from_str::<&RawValue>(data) {
            Ok(json) => pieces.read(json, 0, 0),
            Err(_) if line.ends_with(['\n', '\r']) || "[DONE]".starts_with(data.trim()) => {}
            Err(_) => {
                let data = range.end - data.trim_start().len()..range.end;
                removals.push(Removal { range: data, is_marked: true });
            }
        }
    }
    // Stable: the pieces of a place stay in their order.
    pieces.all.sort_by_key(|(place, _)| *place);
    for ranges in pieces.all.chunk_by(|(one, _), (other, _)| one == other) {
        let ranges = || ranges.iter().map(|(_, range)| range);
        // What each event repeats, such as its id, is no piece of a text.
        let mut texts = ranges().map(|range| &body[range.clone()]);
        let first = texts.next();
        if texts.all(|text| Some(text) == first) {
            continue;
        }
        let text: String = ranges().map(|range| &body[range.clone()]).collect();
        for found in find(&text) {
            let mut at = 0;
            let mut is_marked = true;
            for range in ranges() {
                let length = range.len();
                let start = found.start.clamp(at, at + length) - at;
                let end = found.end.clamp(at, at + length) - at;
                at += length;
                if start < end {
                    let range = range.start + start..range.start + end;
                    removals.push(Removal { range, is_marked });
                    is_marked = false;
                }
            }
        }
    }
    removals
}

// === impl Pieces ===

impl<'a> Pieces<'a> {
    /// Reads the strings of a value at `place`.
    fn read(&mut self, json: &'a RawValue, place: Place, depth: usize) {
        let text = json.get();
        match text.as_bytes()[0] {
            b'"' => {
                let start = text.as_ptr().addr() - self.body.as_ptr().addr();
                let range = start + 1..start + text.len() - 1;
                self.all.push((place, range));
            }
            b'{' if depth < MAX_DEPTH => {
                let Ok(Members(members)) = serde_json::from_str(text) else { return };
                let mut place = place;
                for (name, value) in &members {
                    // Indices tell parallel texts apart, as does the event type, e.g. `response.output_text.delta`.
                    if name.ends_with("index") && is_index(value.get())
                        || depth == 0 && name == "type" && value.get().len() <= MAX_TYPE_BYTES
                    {
                        place = self.hasher.hash_one((place, value.get()));
                    }
                }
                for (name, value) in members {
                    self.read(value, self.hasher.hash_one((place, name)), depth + 1);
                }
            }
            b'[' if depth < MAX_DEPTH => {
                let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                let place = self.hasher.hash_one((place, "[]"));
                for element in elements {
                    self.read(element, place, depth + 1);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a JSON text is a number that may be an index.
fn is_index(json: &str) -> bool {
    json.len() <= MAX_INDEX_BYTES && json.bytes().all(|byte| byte.is_ascii_digit())
}

// === impl Members ===

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(InOrder).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::super::body_without_secrets;
    use super::*;

    fn shown(body: &str) -> String {
        body_without_secrets(body, &["upstream/secret".into()])
    }

    fn chat(index: u32, text: &str) -> String {
        format!(
            "data: {{\"id\":\"hf_same\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"index\":{index}}}]}}\n\n"
        )
    }

    fn responses(kind: &str, text: &str) -> String {
        format!(
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"output_index\":1,\"delta\":\"{text}\"}}\n\n"
        )
    }

    #[test]
    fn a_secret_that_is_split_over_events_is_removed() {
        let stream = |texts: [&str; 5]| {
            let mut events = texts.map(|text| chat(0, text)).to_vec();
            // Another choice between the pieces.
            events.insert(2, chat(1, "1234"));
            events.concat()
        };
        for (pieces, expected) in [
            (
                ["it is s", "k-tg-9f2c0", "123456789abcdef", ", or", " so"],
                ["it is [redacted]", "", "", ", or", " so"],
            ),
            (["x upst", "ream", "\\/secr", "et.", ""], ["x [redacted]", "", "", ".", ""]),
            (
                [
                    "-----BEGIN PRIVATE",
                    " KEY-----\\nMIIE",
                    "vQ\\n-----END PRIV",
                    "ATE KEY-----",
                    ".",
                ],
                ["[redacted]", "", "", "", "."],
            ),
            (
                ["db postgres://u:p", "ass@ho", "st", "", ""],
                ["db postgres://u:[redacted]", "@ho", "st", "", ""],
            ),
            (["task", "-force ", "pk", "_x", " y"], ["task", "-force ", "pk", "_x", " y"]),
        ] {
            assert_eq!(shown(&stream(pieces)), stream(expected));
        }
        let tool = |arguments: &str, id: &str| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0{id},\"function\":{{\"arguments\":\"{arguments}\"}}}}]}}}}]}}\n\n"
            )
        };
        let id = ",\"id\":\"call_1\",\"type\":\"function\"";
        let body = tool("{\\\"key\\\":\\\"sk-01234", id) + &tool("56789abcdef\\\"}", "");
        let expected = tool("{\\\"key\\\":\\\"[redacted]", id) + &tool("\\\"}", "");
        assert_eq!(shown(&body), expected);
        let [text, summary] = ["response.output_text.delta", "response.reasoning_text.delta"];
        let body = responses(text, "sk-01234")
            + &responses(summary, ", ")
            + &responses(text, "56789abcdef");
        let expected =
            responses(text, "[redacted]") + &responses(summary, ", ") + &responses(text, "");
        assert_eq!(shown(&body), expected);
    }

    #[test]
    fn places_have_a_constant_size() {
        let members: Vec<_> = (0..3_000).map(|name| format!(",\"{name}\":\"\"")).collect();
        let members = members.concat();
        let long = "x".repeat(32 * 1024);
        let body = format!("data: {{\"index\":\"{long}\",\"type\":\"{long}\"{members}}}\n");
        let mut pieces = Pieces { body: &body, all: Vec::new(), hasher: RandomState::default() };
        let json = serde_json::from_str(&body["data:".len()..]).unwrap();
        pieces.read(json, 0, 0);
        assert_eq!(pieces.all.len(), 3_002);
        // An index that is none, and a long type, tell no texts apart.
        let event = |index: &str, kind: &str, text: &str| {
            format!("data: {{\"index\":{index},\"type\":\"{kind}\",\"text\":\"{text}\"}}\n")
        };
        let stream = |texts: [&str; 2]| {
            let kinds = ["y", "z"].map(|end| long.clone() + end);
            event("\"1\"", &kinds[0], texts[0]) + &event("12345678901", &kinds[1], texts[1])
        };
        assert_eq!(shown(&stream(["upstream", "/secret"])), stream(["[redacted]", ""]));
    }

    #[test]
    fn a_stream_may_end_in_the_beginning_of_a_secret() {
        let stream = |texts: [&str; 2]| texts.map(|text| chat(0, text)).concat();
        for (texts, expected) in [
            (["it is upst", "ream/"], ["it is [redacted]", ""]),
            (["at postgres://u", ":pas"], ["at postgres://u", ":[redacted]"]),
        ] {
            assert_eq!(shown(&stream(texts)), stream(expected));
        }
    }

    #[test]
    fn an_incomplete_event_is_removed_and_others_are_shown() {
        let begun = chat(0, "it is sk-tg-9f2");
        let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"c0123456789";
        let expected = chat(0, "it is [redacted]") + "data: [redacted]";
        assert_eq!(shown(&(chat(0, "so ") + &begun + cut)), chat(0, "so ") + &expected);
        for body in [
            chat(0, "plain") + "data: [DONE]\n\n",
            "data: [DO".to_owned(),
            ": comment\n\ndata: {broken\n\n".to_owned(),
            "{\"data\": 1}".to_owned(),
            "data: 7\ndata:\n\n".to_owned(),
            format!("data: {}", "[".repeat(1_000)) + "\n",
            format!("data: {}1{}\n", "[".repeat(100), "]".repeat(100)),
        ] {
            assert_eq!(shown(&body), body);
        }
    }
}
