//! Views of chat completions: of a plain answer or of one chunk of a stream.
//!
//! Values stay raw JSON, so that dialects, such as content as an array, can be relayed unchanged.

use std::ops::Range;

use super::error::ReportedError;
use super::fields::{Field, Unknown, read_once, view_fields};
use super::finish::FinishReason;
use super::json::{JsonReader, Malformed, RawJson};
use super::piece::{PieceView, TextKind, add_unknown};
use super::range_in;
use super::text::{Strings, is_label};

/// The chunk that ends an answer as a limit on its length does.
pub const LENGTH_LIMIT_CHUNK: &str = concat!(
    r#"{"object":"chat.completion.chunk","#,
    r#""choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#
);

/// Whether an answer is streamed. This does not follow from the JSON: some servers stream a
/// `message` instead of a `delta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// Plain, in one body.
    Plain,
    /// In chunks.
    Stream,
}

/// A view of a plain answer or a chunk.
#[derive(Debug, Default)]
pub struct ChunkView<'a> {
    model: Option<RawJson<'a>>,
    object: Option<RawJson<'a>>,
    /// The token counts.
    pub usage: Option<RawJson<'a>>,
    /// The upstream's error, in place of an answer.
    pub error: Option<RawJson<'a>>,
    /// The service tier that processed the request.
    pub service_tier: Option<RawJson<'a>>,
    /// The choices; empty in a usage-only chunk.
    pub choices: Option<Vec<ChoiceView<'a>>>,
}

/// The text of a chunk that has nothing else to observe.
#[derive(Clone, Copy, Debug)]
pub struct OnlyText<'a> {
    /// The index of its choice.
    pub index: u32,
    /// What the text is.
    pub kind: TextKind,
    /// The text, a JSON string.
    pub raw: RawJson<'a>,
}

/// A view of one choice.
#[derive(Debug)]
pub struct ChoiceView<'a> {
    /// The index of the choice.
    pub index: u32,
    /// The content of a chunk.
    delta: Option<PieceView<'a>>,
    /// The content of a plain answer.
    message: Option<PieceView<'a>>,
    finish_reason: Option<RawJson<'a>>,
    /// The error of this choice; other choices may have succeeded (`OpenRouter`).
    error: Option<RawJson<'a>>,
    /// The log probabilities of tokens.
    pub logprobs: Option<RawJson<'a>>,
    /// Other fields, which may contain text.
    unknown: Vec<Unknown<'a>>,
}

view_fields! {
    struct ChoiceFields<'a> {
        index: u32,
        delta: PieceView<'a>,
        message: PieceView<'a>,
        finish_reason: RawJson<'a>,
        error: RawJson<'a>,
        logprobs: RawJson<'a>,
    }
}

impl<'a> ChunkView<'a> {
    /// Parses an answer or a chunk.
    ///
    /// # Errors
    /// The text is not a JSON object, or not a chat completion.
    pub fn parse(json: &'a str) -> Result<Self, Malformed> {
        let mut view = Self::default();
        let mut reader = JsonReader::new(json);
        reader.object(|json, name| {
            let field = match &*name {
                "model" => &mut view.model,
                "object" => &mut view.object,
                "usage" => &mut view.usage,
                "error" => &mut view.error,
                "service_tier" => &mut view.service_tier,
                "choices" => return read_once(&mut view.choices, json),
                _ => return json.value().map(drop),
            };
            read_once(field, json)
        })?;
        reader.end().map(|()| view)
    }

    /// Returns the range of the model's name in `json`, which must be the parsed text; `None` if it
    /// is missing or already equal to `wanted` (a JSON string).
    pub fn model_other_than(&self, json: &str, wanted: &str) -> Option<Range<usize>> {
        let given = self.model?.get();
        (given != wanted).then(|| range_in(json, given))
    }

    /// Whether this chunk contains usage and no choices.
    pub fn is_usage_only(&self) -> bool {
        self.usage.is_some() && self.choices.as_ref().is_none_or(Vec::is_empty)
    }

    /// Returns the error that the upstream sent in place of an answer or a chunk; `json` must be
    /// the parsed text. Servers send it in `error`, mark it in `object` (vLLM), or send its fields
    /// at the top level.
    pub fn reported_error(&self, json: &str) -> Option<ReportedError> {
        if let Some(error) = self.error.filter(|error| !is_empty_error(*error)) {
            return Some(ReportedError::parse(error.get().as_bytes()));
        }
        let is_error = self.object.is_some_and(|object| object.get() == r#""error""#);
        if !is_error && (self.choices.is_some() || self.usage.is_some()) {
            return None;
        }
        let error = ReportedError::parse(json.as_bytes());
        (is_error || error.message.is_some()).then_some(error)
    }

    /// Returns the text of a chunk that has one choice, which has not ended, and whose other fields have the same
    /// meaning whatever the text is.
    pub fn only_text(&self) -> Option<OnlyText<'a>> {
        let [choice] = self.choices() else { return None };
        if self.usage.is_some() || self.error.is_some() {
            return None;
        }
        choice.only_text()
    }

    /// Returns the choices; empty if the field is missing.
    pub fn choices(&self) -> &[ChoiceView<'a>] {
        self.choices.as_deref().unwrap_or_default()
    }
}

impl<'a> Field<'a> for ChoiceView<'a> {
    fn read(json: &mut JsonReader<'a>) -> Result<Option<Self>, Malformed> {
        Ok(ChoiceFields::read(json)?.map(Self::from))
    }
}

impl<'a> From<ChoiceFields<'a>> for ChoiceView<'a> {
    fn from(fields: ChoiceFields<'a>) -> Self {
        let ChoiceFields { index, delta, message, finish_reason, error, logprobs, mut unknown } =
            fields;
        unknown.extend(finish_reason.filter(|raw| !is_label(*raw)).map(Unknown::text));
        let index = index.unwrap_or_default();
        Self { index, delta, message, finish_reason, error, logprobs, unknown }
    }
}

impl<'a> ChoiceView<'a> {
    /// Returns the delta or the message.
    pub fn piece(&self) -> Option<&PieceView<'a>> {
        self.delta.as_ref().or(self.message.as_ref())
    }

    fn only_text(&self) -> Option<OnlyText<'a>> {
        let Self { index, delta, message, finish_reason, error, logprobs, unknown } = self;
        let others = [finish_reason, error, logprobs];
        if others.iter().any(|raw| raw.is_some()) || message.is_some() || !unknown.is_empty() {
            return None;
        }
        let (kind, raw) = delta.as_ref()?.only_text()?;
        Some(OnlyText { index: *index, kind, raw })
    }

    /// Returns the message of a choice that also has a delta. Some servers repeat the complete text
    /// in it.
    pub fn repeated_message(&self) -> Option<&PieceView<'a>> {
        self.message.as_ref().filter(|_| self.delta.is_some())
    }

    /// Returns the strings in unknown fields of the choice, without text that is also in the delta
    /// or message.
    pub fn unknown_strings(&self) -> Vec<Strings<'a>> {
        let mut found = Vec::new();
        if !self.unknown.is_empty() {
            let known = self.piece().map(PieceView::known_texts).unwrap_or_default();
            add_unknown(&self.unknown, &known, &mut found);
        }
        found
    }

    /// Returns the reason why the choice ended; `None` if it has not. Values that are not strings
    /// and placeholders such as `"null"` count as no reason.
    pub fn finish(&self) -> Option<FinishReason> {
        if self.error.is_some_and(|error| !is_empty_error(error)) {
            return Some(FinishReason::Failed);
        }
        match self.finish_reason?.get().strip_prefix('"')?.strip_suffix('"')? {
            "stop" | "tool_calls" => Some(FinishReason::Complete),
            reason => FinishReason::named(reason),
        }
    }
}

/// Whether the value of `error` means no error. Servers that serialise every field send such
/// values.
fn is_empty_error(error: RawJson<'_>) -> bool {
    matches!(error.get(), r#""""# | "[]" | "false" | "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_a_chunk() {
        let json = r#"{"id":"c","model":"up","choices":[{"index":0,"delta":{"content":"a\n","tool_calls":[]},"finish_reason":null}],"usage":null}"#;
        let view = ChunkView::parse(json).unwrap();
        assert_eq!(
            view.model_other_than(json, "\"mine\"").map(|range| &json[range]),
            Some("\"up\"")
        );
        assert_eq!(view.model_other_than(json, "\"up\""), None);
        assert!(view.usage.is_none() && view.error.is_none() && !view.is_usage_only());
        let piece = view.choices()[0].piece().unwrap();
        assert_eq!(piece.content.map(RawJson::get), Some(r#""a\n""#));
        assert!(piece.calls().unwrap().is_empty());
        assert!(piece.reasonings().iter().all(Option::is_none));
        assert!(view.choices()[0].finish().is_none());
    }

    #[test]
    fn a_chunk_with_only_a_text_is_recognised() {
        let text = |json: &str| {
            let view = ChunkView::parse(json).unwrap();
            view.only_text().map(|text| (text.index, text.kind, text.raw.get().to_owned()))
        };
        let of =
            |delta: &str| text(&format!(r#"{{"usage":null,"choices":[{{"delta":{delta}}}]}}"#));
        let check = |delta: &str, kind, raw: &str| {
            assert_eq!(of(delta), Some((0, kind, raw.to_owned())), "{delta}");
        };
        check(r#"{"content":"a"}"#, TextKind::Content, r#""a""#);
        let empty = r#"{"role":"assistant","content":"","reasoning":"r","tool_calls":[]}"#;
        check(empty, TextKind::Reasoning, r#""r""#);
        for delta in [
            "{}",
            r#"{"content":""}"#,
            r#"{"content":["a"]}"#,
            r#"{"content":"a","content":"b"}"#,
            r#"{"content":"a","reasoning_content":"b"}"#,
            r#"{"content":"a","refusal":"b"}"#,
            r#"{"content":"a","tool_calls":[{}]}"#,
            r#"{"content":"a","other":"b"}"#,
        ] {
            assert_eq!(of(delta), None, "{delta}");
        }
        for json in [
            r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"delta":{"content":"a"},"logprobs":{}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"},"message":{}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}},{}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{}}"#,
            r#"{"choices":[]}"#,
        ] {
            assert_eq!(text(json), None, "{json}");
        }
    }

    #[test]
    fn choices_may_be_missing_or_null_or_several() {
        let indices = |json: &str| {
            let choices = ChunkView::parse(json).unwrap().choices;
            choices.map(|choices| choices.iter().map(|choice| choice.index).collect::<Vec<_>>())
        };
        assert_eq!(indices("{}"), None);
        assert_eq!(indices(r#"{"choices":null}"#), None);
        assert_eq!(indices(r#"{"choices":[]}"#), Some(vec![]));
        assert_eq!(indices(r#"{"choices":[{"index":2}]}"#), Some(vec![2]));
        assert_eq!(indices(r#"{"choices":[{},{"index":1},{"index":2}]}"#), Some(vec![0, 1, 2]));
    }

    #[test]
    fn views_the_last_chunks() {
        for (reason, expected) in [
            ("length", FinishReason::Length),
            ("max_tokens", FinishReason::Length),
            ("model_length", FinishReason::Length),
            ("content_filter", FinishReason::Filter),
            ("safety", FinishReason::Filter),
            ("refusal", FinishReason::Filter),
            ("error", FinishReason::Failed),
            ("abort", FinishReason::Failed),
            ("MAX_TOKENS", FinishReason::Length),
            ("model_context_window_exceeded", FinishReason::Length),
            ("RECITATION", FinishReason::Filter),
            ("insufficient_system_resource", FinishReason::Failed),
            ("network_error", FinishReason::Failed),
            ("an unknown reason", FinishReason::Complete),
            ("", FinishReason::Empty),
            ("stop", FinishReason::Complete),
            ("tool_calls", FinishReason::Complete),
        ] {
            let json = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
            let finish = ChunkView::parse(&json).unwrap().choices()[0].finish();
            assert_eq!(finish, Some(expected), "{reason}");
        }
        assert!(ChunkView::parse(r#"{"choices":[],"usage":{}}"#).unwrap().is_usage_only());
        assert!(ChunkView::parse(r#"{"usage":{}}"#).unwrap().is_usage_only());
        assert!(!ChunkView::parse(r#"{"choices":[]}"#).unwrap().is_usage_only());
        assert!(ChunkView::parse(r#"{"error":{"message":"x"}}"#).unwrap().error.is_some());
    }

    #[test]
    fn finds_errors_in_every_form() {
        let check = |json: &str, message: Option<Option<&str>>| {
            let error = ChunkView::parse(json).unwrap().reported_error(json);
            let message = message.map(|text| text.map(str::to_owned));
            assert_eq!(error.map(|error| error.message), message, "{json}");
        };
        check(r#"{"error":{"message":"x"}}"#, Some(Some("x")));
        check(r#"{"error":"x","choices":[]}"#, Some(Some("x")));
        check(r#"{"object":"error","message":"x","code":400}"#, Some(Some("x")));
        check(r#"{"object":"error","choices":[]}"#, Some(None));
        check(r#"{"message":"x"}"#, Some(Some("x")));
        check(r#"{"detail":"x"}"#, Some(Some("x")));
        check(r#"{"message":"x","usage":{}}"#, None);
        check(r#"{"type":"ping"}"#, None);
        check(r#"{"error":null,"object":"chat.completion.chunk","choices":[]}"#, None);
        for empty in [r#""""#, "[]", "false", "0"] {
            check(&format!(r#"{{"error":{empty},"choices":[]}}"#), None);
        }
    }

    #[test]
    fn placeholder_finish_reasons_do_not_end_a_choice() {
        let finish = |choice: &str| {
            let json = format!(r#"{{"choices":[{choice}]}}"#);
            ChunkView::parse(&json).unwrap().choices()[0].finish()
        };
        for reason in [r#""null""#, r#""None""#, "null", "false", "0", "{}", "[]"] {
            assert_eq!(finish(&format!(r#"{{"finish_reason":{reason}}}"#)), None, "{reason}");
        }
        assert_eq!(finish(r#"{"error":null,"finish_reason":null}"#), None);
        let failed = r#"{"error":{"message":"boom"},"finish_reason":"stop"}"#;
        assert_eq!(finish(failed), Some(FinishReason::Failed));
        let whole = r#"{"error":"","finish_reason":"stop"}"#;
        assert_eq!(finish(whole), Some(FinishReason::Complete));
    }

    #[test]
    fn rejects_values_that_are_not_a_completion() {
        let endless = format!(r#"{{"choices":[{}{{}}]}}"#, "{},".repeat(16 * 1024));
        for json in ["", "[1", "null", "3", r#"{"choices":3}"#, "{} {}", &endless] {
            assert!(ChunkView::parse(json).is_err(), "{json:.99?}");
        }
    }
}
