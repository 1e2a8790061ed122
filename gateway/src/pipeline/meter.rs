//! Looks on as an answer passes: what it used, what it produced, how it ended.
//!
//! Text is kept as the escaped JSON that it came as (but for the names of calls), and decoded only if it
//! has to be counted.

use serde_json::value::RawValue;

use super::calls::Calls;
use super::choices::Choices;
use super::pieces;
use crate::domain::usage::Usage;
use crate::wire::chunk::{AnswerForm, ChunkView, FinishReason, PieceView};
use crate::wire::first_byte;
use crate::wire::text::text_of;
use crate::wire::usage::UsageReport;

/// What is known of an answer so far.
#[derive(Debug, Default)]
pub struct Meter {
    /// What the upstream says that it used; the last word wins.
    pub reported: Option<UsageReport>,
    /// What it produced, but for what was taken off to be counted.
    produced: Produced,
    /// How much that was, in bytes.
    taken: usize,
    choices: Choices,
    /// Whether some choice was cut by a length limit or a content filter.
    pub cut: bool,
    /// Whether the upstream says that it broke some choice off.
    pub broken: bool,
}

/// What an answer holds, by kind. Strings are JSON text without its quotes.
#[derive(Debug, Default)]
pub struct Produced {
    /// Text, refusals included.
    pub content: String,
    /// Reasoning.
    pub reasoning: String,
    /// Tool calls.
    pub calls: Calls,
    /// Raw JSON values of shapes that are not known.
    pub other: String,
}

impl Meter {
    /// What records keep of what the upstream says that it used.
    pub fn usage(&self) -> Option<Usage> {
        self.reported.map(|reported| reported.usage)
    }

    /// Whether every choice that has begun has ended.
    pub fn is_finished(&self) -> bool {
        self.choices.is_finished()
    }

    /// Whether that holds of a stream whose end marker has come.
    pub fn is_finished_by_marker(&self) -> bool {
        self.choices.is_finished_by_marker()
    }

    /// Takes note of a chunk, or of a whole answer.
    pub fn observe(&mut self, view: &ChunkView<'_>, form: AnswerForm) {
        if let Some(reported) = view.usage.and_then(UsageReport::parse) {
            self.reported = Some(reported);
        }
        for choice in view.choices() {
            if let Some(piece) = choice.piece() {
                self.produced.add(piece, form);
            }
            self.choices.observe(choice);
            let finish = choice.finish();
            self.cut |= matches!(finish, Some(FinishReason::Length | FinishReason::Filter));
            self.broken |= finish == Some(FinishReason::Broken);
        }
    }

    /// How much it produced so far, in bytes.
    pub fn produced_bytes(&self) -> usize {
        self.taken + self.produced.len()
    }

    /// Takes off what it produced and was not taken off before.
    pub fn take_produced(&mut self) -> Produced {
        self.taken = self.produced_bytes();
        std::mem::take(&mut self.produced)
    }

    /// Takes off what can be counted by itself of an answer that has become long.
    pub fn take_piece(&mut self) -> Option<Produced> {
        let content = pieces::take_piece(&mut self.produced.content);
        let reasoning = pieces::take_piece(&mut self.produced.reasoning);
        let piece = Produced { content, reasoning, ..Produced::default() };
        self.taken += piece.len();
        (piece.len() > 0).then_some(piece)
    }
}

impl Produced {
    fn len(&self) -> usize {
        self.content.len() + self.reasoning.len() + self.calls.len() + self.other.len()
    }

    fn add(&mut self, piece: &PieceView<'_>, form: AnswerForm) {
        self.reasoning.push_str(&piece.reasoning_text());
        for raw in [piece.content, piece.refusal].into_iter().flatten() {
            let text = text_of(Some(raw));
            self.content.push_str(&text);
            if text.is_empty() && first_byte(raw) == b'[' {
                self.add_unknown(raw);
            }
        }
        match piece.calls() {
            Ok(calls) => calls.iter().for_each(|call| self.calls.add(call, form)),
            Err(malformed) => self.add_unknown(malformed.raw),
        }
    }

    fn add_unknown(&mut self, raw: &RawValue) {
        self.other.push_str(raw.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(chunks: &[&str]) -> Meter {
        let mut meter = Meter::default();
        for chunk in chunks {
            let json = format!(r#"{{"choices":[{{"delta":{chunk}}}]}}"#);
            meter.observe(&ChunkView::parse(&json).unwrap(), AnswerForm::Stream);
        }
        meter
    }

    #[test]
    fn what_was_produced_is_kept_by_kind() {
        let produced = observed(&[
            r#"{"reasoning_content":"","reasoning":"why\n"}"#,
            r#"{"reasoning_details":[{"text":"?"}],"content":"a"}"#,
            r#"{"content":[{"type":"text","text":"b"}],"tool_calls":[]}"#,
            r#"{"refusal":"no","tool_calls":[{"index":0,"function":{"name":"f"}}]}"#,
            r#"{"content":null,"function_call":{"arguments":"{}"}}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"text":"hm"}]}],"tool_calls":{}}"#,
        ])
        .take_produced();
        assert_eq!(produced.reasoning, r"why\n?");
        assert_eq!(produced.content, "abno");
        assert_eq!(produced.calls.texts().collect::<Vec<_>>(), ["f", "{}"]);
        assert_eq!(produced.other, r#"[{"type":"thinking","thinking":[{"text":"hm"}]}]{}"#);
        assert_eq!(produced.len(), 6 + 4 + 3 + produced.other.len());
    }

    #[test]
    fn calls_come_one_each_in_a_whole_answer_and_in_pieces_in_a_stream() {
        let texts = |form, lists: &[&str]| -> Vec<String> {
            let mut meter = Meter::default();
            for list in lists {
                let json = format!(r#"{{"choices":[{{"message":{{"tool_calls":{list}}}}}]}}"#);
                meter.observe(&ChunkView::parse(&json).unwrap(), form);
            }
            meter.take_produced().calls.texts().map(Into::into).collect()
        };
        let two = r#"[{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g","arguments":"{}"}}]"#;
        assert_eq!(texts(AnswerForm::Whole, &[two]), ["f", "{}", "g", "{}"]);
        let begin = r#"[{"index":0,"function":{"name":"f","arguments":"{"}}]"#;
        let end = r#"[{"index":0,"function":{"arguments":"}"}}]"#;
        assert_eq!(texts(AnswerForm::Stream, &[begin, end]), ["f", "{}"]);
    }

    #[test]
    fn what_is_taken_off_to_be_counted_still_is_part_of_the_length() {
        let long = format!(r#"{{"content":"{}end"}}"#, "word ".repeat(10_000));
        let mut meter = observed(&[&long]);
        let piece = meter.take_piece().unwrap();
        assert_eq!(piece.content.len(), 50_003 - " end".len());
        assert!(meter.take_piece().is_none());
        assert_eq!(meter.produced_bytes(), 50_003);
        assert_eq!(meter.take_produced().content, " end");
        assert_eq!(meter.take_produced().len(), 0);
        assert_eq!(meter.produced_bytes(), 50_003);
    }
}
