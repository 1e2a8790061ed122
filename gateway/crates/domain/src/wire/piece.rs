//! Views of a message of a plain answer, or of its delta in a chunk.
//!
//! Values stay raw JSON, so that dialects, such as content as an array, can be relayed unchanged.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::call::CallPiece;
use super::fields::{Field, Unknown};
use super::json::{JsonReader, Malformed, RawJson};
use super::text::{FieldKind, Strings, strings_in, text_of};

/// A view of a message or a delta, with raw JSON values: strings, and an array for tool calls.
#[derive(Debug, Default)]
pub struct PieceView<'a> {
    /// The answer's text.
    pub content: Option<RawJson<'a>>,
    /// The text of a refusal.
    pub refusal: Option<RawJson<'a>>,
    reasoning_content: Option<RawJson<'a>>,
    reasoning: Option<RawJson<'a>>,
    reasoning_details: Option<RawJson<'a>>,
    thinking: Option<RawJson<'a>>,
    tool_calls: Option<RawJson<'a>>,
    /// The single call of servers without `tool_calls`.
    function_call: Option<RawJson<'a>>,
    /// The calls of `tool_calls` or `function_call`, parsed on first use.
    calls: OnceCell<Result<Vec<CallPiece<'a>>, MalformedCalls<'a>>>,
    /// References of the text, such as citations.
    pub annotations: Option<RawJson<'a>>,
    /// Other fields, which may contain text.
    unknown: Vec<Unknown<'a>>,
}

/// What a text is to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// The answer.
    Content,
    /// Reasoning.
    Reasoning,
}

/// An invalid value of `tool_calls` or `function_call`.
#[derive(Clone, Debug)]
pub struct MalformedCalls<'a> {
    /// The value.
    pub raw: RawJson<'a>,
    /// The parse error, without text from the value.
    pub parse_error: String,
}

impl<'a> Field<'a> for PieceView<'a> {
    /// Reads a message or a delta. Of a duplicate field, the last value counts and the others are unknown.
    fn read(json: &mut JsonReader<'a>) -> Result<Option<Self>, Malformed> {
        if json.null()? {
            return Ok(None);
        }
        let mut piece = Self::default();
        json.object(|json, name| {
            let value = json.value()?;
            let field = match &*name {
                "content" => &mut piece.content,
                "refusal" => &mut piece.refusal,
                "reasoning_content" => &mut piece.reasoning_content,
                "reasoning" => &mut piece.reasoning,
                "reasoning_details" => &mut piece.reasoning_details,
                "thinking" => &mut piece.thinking,
                "tool_calls" => &mut piece.tool_calls,
                "function_call" => &mut piece.function_call,
                "annotations" => &mut piece.annotations,
                _ => {
                    piece.unknown.extend(Unknown::new(FieldKind::of(&name), value));
                    return Ok(());
                }
            };
            let earlier = std::mem::replace(field, Some(value).filter(|value| !value.is_null()));
            piece.unknown.extend(earlier.map(Unknown::text));
            Ok::<_, Malformed>(())
        })?;
        Ok(Some(piece))
    }
}

impl<'a> PieceView<'a> {
    /// Returns the tool calls or their deltas; empty if there are none.
    ///
    /// # Errors
    /// The field has an invalid value.
    pub fn calls(&self) -> Result<&[CallPiece<'a>], &MalformedCalls<'a>> {
        self.calls.get_or_init(|| self.read_calls()).as_deref()
    }

    fn read_calls(&self) -> Result<Vec<CallPiece<'a>>, MalformedCalls<'a>> {
        let malformed = |name: &str, raw, error: &Malformed| {
            let parse_error = format!("`{name}` is not readable: {error}");
            MalformedCalls { raw, parse_error }
        };
        if let Some(list) = self.tool_calls {
            let calls = CallPiece::read_list(list)
                .map_err(|error| malformed("tool_calls", list, &error))?;
            if !calls.is_empty() {
                return Ok(calls);
            }
        }
        let Some(only) = self.function_call else { return Ok(Vec::new()) };
        let call =
            CallPiece::read_only(only).map_err(|error| malformed("function_call", only, &error))?;
        Ok(vec![call])
    }

    /// Returns the reasoning as escaped text, from the first field that has any: some servers send
    /// the same text in two fields (rule R-8).
    pub fn reasoning_text(&self) -> Cow<'a, str> {
        let texts = self.reasonings().into_iter().map(text_of);
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Returns the reasoning fields in order of preference. Real servers send two of them, or an
    /// empty one and a non-empty one (rule R-8).
    pub(super) fn reasonings(&self) -> [Option<RawJson<'a>>; 4] {
        [self.reasoning_content, self.reasoning, self.reasoning_details, self.thinking]
    }

    /// Returns the strings of each reasoning field, without text that an earlier field repeats.
    pub fn reasoning_strings(&self) -> [Strings<'a>; 4] {
        let mut found = self.reasonings().map(all_strings);
        for later in 1..found.len() {
            let (earlier, rest) = found.split_at_mut(later);
            // Most chunks have no reasoning; comparing empty texts would cost a tenth of an event.
            let text = &mut rest[0].text;
            if !text.is_empty() && earlier.iter().any(|it| it.text == *text) {
                *text = Cow::Borrowed("");
            }
        }
        found
    }

    /// Returns the text of a piece that has nothing else to observe: a string that is not empty.
    pub(super) fn only_text(&self) -> Option<(TextKind, RawJson<'a>)> {
        let has_calls = self.tool_calls.is_some_and(|raw| raw.get() != "[]");
        let has_annotations = self.annotations.is_some_and(|raw| raw.get() != "[]");
        let is_other = has_calls || has_annotations || !self.unknown.is_empty();
        if is_other || self.function_call.is_some() || self.refusal.is_some() {
            return None;
        }
        let content = self.content.map(|raw| (TextKind::Content, raw)).into_iter();
        let reasonings = self.reasonings().into_iter().flatten();
        let texts = content.chain(reasonings.map(|raw| (TextKind::Reasoning, raw)));
        let mut texts = texts.filter(|(_, raw)| raw.get() != r#""""#);
        let only = texts.next().filter(|_| texts.next().is_none())?;
        (only.1.first_byte() == b'"').then_some(only)
    }

    /// Returns the strings of content and refusal.
    pub fn content_strings(&self) -> [Strings<'a>; 2] {
        [self.content, self.refusal].map(all_strings)
    }

    /// Returns the strings in unknown fields, without text that a known field repeats.
    pub fn unknown_strings(&self) -> Vec<Strings<'a>> {
        let mut found = Vec::new();
        // `function_call` is ignored if `tool_calls` is present, so its text counts as unknown.
        let has_list = || {
            let list = self.tool_calls.is_some_and(|raw| raw.get() != "[]");
            list && self.calls().map_or(true, |calls| !calls.is_empty())
        };
        // Servers that serialise every field send an empty list, for which the known texts need not be collected.
        let annotations = self.annotations.filter(|raw| raw.get() != "[]");
        let beside = [annotations, self.function_call.filter(|_| has_list())];
        if !self.unknown.is_empty() || beside.iter().any(Option::is_some) {
            let known = self.known_texts();
            let beside: Vec<_> = beside.into_iter().flatten().map(Unknown::text).collect();
            add_unknown(&self.unknown, &known, &mut found);
            add_unknown(&beside, &known, &mut found);
        }
        found
    }

    pub(super) fn known_texts(&self) -> Vec<Cow<'a, str>> {
        let known = [self.content, self.refusal].into_iter().chain(self.reasonings());
        known.map(|raw| all_strings(raw).text).filter(|text| !text.is_empty()).collect()
    }
}

/// Returns all strings of a text field; empty if it is missing.
fn all_strings(raw: Option<RawJson<'_>>) -> Strings<'_> {
    raw.map(|raw| strings_in(FieldKind::Text, raw)).unwrap_or_default()
}

/// Adds the strings of unknown fields to `found`, each text once, and without the texts in `known`.
pub(super) fn add_unknown<'a>(
    unknown: &[Unknown<'a>],
    known: &[Cow<'a, str>],
    found: &mut Vec<Strings<'a>>,
) {
    for field in unknown {
        let mut strings = field.strings();
        if known.contains(&strings.text) || found.iter().any(|it| it.text == strings.text) {
            strings.text = Cow::Borrowed("");
        }
        if strings != Strings::default() {
            found.push(strings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::ChunkView;
    use super::*;

    #[test]
    fn finds_text_of_unknown_fields_once() {
        let check = |piece: &str, expected: &[&str]| {
            let json = format!(r#"{{"choices":[{{"delta":{piece}}}]}}"#);
            let view = ChunkView::parse(&json).unwrap();
            let found = view.choices()[0].piece().unwrap().unknown_strings();
            let texts: Vec<_> =
                found.iter().map(|it| &*it.text).filter(|it| !it.is_empty()).collect();
            assert_eq!(texts, expected, "{piece}");
        };
        check(r#"{"role":"assistant","content":"a","tool_call_id":"c","signature":"s"}"#, &[]);
        check(r#"{"signature":"no base64","id":["x"]}"#, &["no base64", "x"]);
        check(r#"{"content":"a","content":"b"}"#, &["a"]);
        check(r#"{"annotations":[{"type":"url_citation","title":"a"}]}"#, &["a"]);
        check(r#"{"content":"a","annotations":[]}"#, &[]);
        check(r#"{"x":{"y":{"text":"a"}}}"#, &["a"]);
        check(r#"{"thought":"hm\n","count":3,"flag":true,"none":null}"#, &[r"hm\n"]);
        check(r#"{"audio":{"id":"a","data":"UklG","transcript":"hello"}}"#, &["hello"]);
        check(r#"{"blocks":[{"type":"thinking","thinking":"a"},{"text":"b"},"c"]}"#, &["abc"]);
        check(
            r#"{"content":"a","text":"a","reasoning":"b","thought":"b","x":"c","y":"c"}"#,
            &["c"],
        );
        check(r#"{"th\u006fught":"hm"}"#, &["hm"]);
    }

    #[test]
    fn reads_calls_from_tool_calls_or_function_call() {
        let calls = |piece: &str| {
            let json = format!(r#"{{"choices":[{{"delta":{piece}}}]}}"#);
            let view = ChunkView::parse(&json).unwrap();
            let calls = view.choices()[0].piece().unwrap().calls();
            let names =
                |calls: &[CallPiece<'_>]| calls.iter().map(|call| call.name.to_string()).collect();
            calls
                .map(names)
                .map_err(|error| (error.raw.get().to_owned(), error.parse_error.clone()))
        };
        let check = |piece: &str, expected: &[&str]| {
            assert_eq!(
                calls(piece),
                Ok(expected.iter().map(ToString::to_string).collect::<Vec<_>>()),
                "{piece}"
            );
        };
        check("{}", &[]);
        check(r#"{"tool_calls":null,"function_call":null}"#, &[]);
        check(r#"{"tool_calls":[{"function":{"name":"f"}}],"function_call":{"name":"g"}}"#, &["f"]);
        check(r#"{"tool_calls":[],"function_call":{"name":"g"}}"#, &["g"]);
        let (raw, parse_error) = calls(r#"{"tool_calls":3}"#).unwrap_err();
        assert_eq!(
            (&*raw, &*parse_error),
            ("3", "`tool_calls` is not readable: unexpected value before byte 0")
        );
        assert_eq!(calls(r#"{"function_call":"f"}"#).unwrap_err().0, "\"f\"");
    }
}
