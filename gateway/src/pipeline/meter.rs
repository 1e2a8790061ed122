//! Looks on as an answer passes: what it used, what it produced, how it ended.
//!
//! Text is kept, unescaped, only until it is counted, and whoever feeds the meter has it counted before
//! there is much of it: memory does not grow with the answer.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::calls::Calls;
use super::choices::Choices;
use super::count::{TextTokens, text_in, tokens};
use super::pieces::Text;
use crate::upstream::UpstreamError;
use domain::wire::chunk::{AnswerForm, ChoiceView, ChunkView, FinishReason, PieceView};
use domain::wire::first_byte;
use domain::wire::text::text_of;
use domain::wire::usage::UsageReport;

/// The answers to one request have indices below this, unless it asked for more of them.
const MAX_CHOICES: u32 = 128;
/// The text of ordinary answers has more bytes to a token than this, whatever its language.
const BYTES_PER_TOKEN: u64 = 4;

/// What is known of an answer so far.
#[derive(Debug, Default)]
pub struct Meter {
    /// What the upstream says that it used; the last word wins.
    pub reported: Option<UsageReport>,
    /// Whether some choice was cut by a length limit or a content filter.
    pub cut: bool,
    /// Whether the upstream says that it broke some choice off.
    pub broken: bool,
    /// How many answers the request asked for.
    asked_choices: u32,
    /// Which choices have begun and which have ended.
    choices: Choices,
    /// The text of each choice, by index.
    texts: Vec<ChoiceText>,
    /// The index of a choice that nobody asked for.
    stray_choice: Option<u32>,
    calls: Calls,
    /// Text in values of shapes that are not known.
    other: Text,
    /// All text so far, in bytes.
    produced_bytes: usize,
    /// The same as the escaped JSON that it came as.
    received_bytes: usize,
    /// The text that is kept, in bytes.
    pending_bytes: usize,
    /// The tokens of the text that is not kept any more.
    counted: TextTokens,
    /// How much text was taken off whose count is not known yet, in bytes.
    counting_bytes: usize,
    /// The tokens of the text that is kept, as it was when it was counted last.
    tail_tokens: u64,
    /// The text that was not there then, in bytes.
    fresh_bytes: usize,
}

/// The text of one choice that is not counted yet.
#[derive(Debug, Default)]
struct ChoiceText {
    /// Text, refusals included.
    content: Text,
    reasoning: Text,
}

/// Text taken off to be counted, each by itself.
#[derive(Debug, Default)]
pub struct Produced {
    /// Text and the names and arguments of calls.
    pub output: Vec<String>,
    /// Reasoning.
    pub reasoning: Vec<String>,
}

// === impl Meter ===

impl Meter {
    /// Whether all choices that were asked for have come and ended.
    pub fn is_finished(&self) -> bool {
        self.choices.is_finished(self.asked_choices as usize)
    }

    /// Whether that holds of a stream whose end marker has come.
    pub fn is_finished_by_marker(&self) -> bool {
        self.choices.is_finished_by_marker()
    }

    /// Notes how many answers the request asked for.
    pub fn asked(&mut self, choices: u64) {
        self.asked_choices = u32::try_from(choices).unwrap_or(u32::MAX);
    }

    /// Takes note of a chunk, or of a whole answer.
    pub fn observe(&mut self, view: &ChunkView<'_>, form: AnswerForm) {
        if let Some(reported) = view.usage.and_then(UsageReport::parse) {
            self.reported = Some(reported);
        }
        for choice in view.choices() {
            if let Some(index) = self.choice(choice) {
                if let Some(piece) = choice.piece() {
                    self.add(index, piece, form);
                }
                self.choices.observe(choice);
                let finish = choice.finish();
                self.cut |= matches!(finish, Some(FinishReason::Length | FinishReason::Filter));
                self.broken |= finish == Some(FinishReason::Broken);
            }
        }
    }

    /// Makes sure that the upstream answered only what it was asked.
    ///
    /// # Errors
    /// It sent a choice with an index beyond those that were asked for.
    pub fn check_choices(&self) -> Result<(), UpstreamError> {
        self.stray_choice.map_or(Ok(()), |index| {
            Err(UpstreamError::Invalid(format!("it sent a choice with the index {index}")))
        })
    }

    /// How much text it produced so far, in bytes.
    pub fn produced_bytes(&self) -> usize {
        self.produced_bytes
    }

    /// How much that was as the escaped JSON that it came as, in bytes.
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// How much text is kept because it is not counted, in bytes.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// At most how many output tokens the text so far is: each takes a byte of what is not counted.
    pub fn output_bound(&self) -> u64 {
        let uncounted = (self.counting_bytes + self.fresh_bytes) as u64;
        self.counted.output.saturating_add(self.tail_tokens).saturating_add(uncounted)
    }

    /// About how many output tokens the text so far is.
    pub fn output_estimate(&self) -> u64 {
        let uncounted = (self.counting_bytes + self.fresh_bytes) as u64 / BYTES_PER_TOKEN;
        self.counted.output.saturating_add(self.tail_tokens).saturating_add(uncounted)
    }

    /// Whether all text is counted, and [`output_bound`](Self::output_bound) no bound but a count.
    pub fn is_counted(&self) -> bool {
        self.counting_bytes == 0 && self.fresh_bytes == 0
    }

    /// The tokens of what was taken off and counted.
    pub fn counted(&self) -> TextTokens {
        self.counted
    }

    /// Counts all text here and now, and keeps only the words that may go on.
    pub fn count_here(&mut self) {
        if self.fresh_bytes == 0 {
            return;
        }
        let (mut counted, mut tail, mut pending) = (TextTokens::default(), 0, 0);
        self.each_text(|text, is_reasoning| {
            if text.as_str().is_empty() {
                return;
            }
            let front = text.count_front(tokens);
            counted.output += front;
            counted.reasoning += if is_reasoning { front } else { 0 };
            tail += tokens(text.as_str());
            pending += text.as_str().len();
        });
        self.counted += counted;
        self.tail_tokens = tail;
        self.fresh_bytes = 0;
        self.pending_bytes = pending;
    }

    /// Takes off all text that is not counted.
    pub fn take_produced(&mut self) -> Produced {
        let mut produced = Produced::default();
        self.each_text(|text, is_reasoning| produced.push(text.take(), is_reasoning));
        self.taken();
        produced
    }

    /// Takes off the text that can be counted by itself, to be given back to
    /// [`piece_counted`](Self::piece_counted). What stays is `max_rest` bytes or less.
    pub fn take_piece(&mut self, max_rest: usize) -> Produced {
        let (mut produced, mut rest) = (Produced::default(), 0);
        self.each_text(|text, is_reasoning| {
            produced.push(text.take_front(), is_reasoning);
            rest += text.as_str().len();
        });
        if rest > max_rest {
            self.each_text(|text, is_reasoning| produced.push(text.take(), is_reasoning));
            rest = 0;
        }
        self.taken();
        self.pending_bytes = rest;
        self.fresh_bytes = rest;
        self.counting_bytes = produced.len();
        produced
    }

    /// Takes in how many tokens the piece has that was taken off last; if it could not be counted, about
    /// as many as its length makes likely.
    pub fn piece_counted(&mut self, tokens: Option<TextTokens>) {
        let estimate = TextTokens {
            output: (self.counting_bytes as u64).div_ceil(BYTES_PER_TOKEN),
            reasoning: 0,
        };
        self.counted += tokens.unwrap_or(estimate);
        self.counting_bytes = 0;
    }

    fn taken(&mut self) {
        self.pending_bytes = 0;
        self.tail_tokens = 0;
        self.fresh_bytes = 0;
    }

    /// Returns the index of the choice's text; `None` if the request did not ask for that choice.
    fn choice(&mut self, view: &ChoiceView<'_>) -> Option<usize> {
        if view.index >= self.asked_choices.max(MAX_CHOICES) {
            self.stray_choice = Some(view.index);
            return None;
        }
        let index = usize::try_from(view.index).ok()?;
        if self.texts.len() <= index {
            self.texts.resize_with(index + 1, ChoiceText::default);
        }
        Some(index)
    }

    fn add(&mut self, index: usize, piece: &PieceView<'_>, form: AnswerForm) {
        let choice = &mut self.texts[index];
        let reasoning = piece.reasoning_text();
        let (mut added, mut received) =
            (choice.reasoning.push_escaped(&reasoning), reasoning.len());
        for raw in [piece.content, piece.refusal].into_iter().flatten() {
            let text = text_of(Some(raw));
            added += choice.content.push_escaped(&text);
            received += text.len();
            if text.is_empty() && first_byte(raw) == b'[' {
                added += self.other.push(&unknown_text(raw));
                received += raw.get().len();
            }
        }
        for text in piece.unknown_texts() {
            added += choice.content.push_escaped(&text);
            received += text.len();
        }
        match piece.calls() {
            Ok(calls) => {
                let number = u32::try_from(index).unwrap_or(u32::MAX);
                for call in calls {
                    added += self.calls.add(number, call, form);
                    received += call.name.len() + call.arguments.len();
                }
            }
            Err(malformed) => {
                added += self.other.push(&unknown_text(malformed.raw));
                received += malformed.raw.get().len();
            }
        }
        self.received_bytes += received;
        self.produced_bytes += added;
        self.pending_bytes += added;
        self.fresh_bytes += added;
    }

    /// Calls `each` with every text, and whether it is reasoning.
    fn each_text(&mut self, mut each: impl FnMut(&mut Text, bool)) {
        for choice in &mut self.texts {
            each(&mut choice.content, false);
            each(&mut choice.reasoning, true);
        }
        self.calls.texts_mut().for_each(|text| each(text, false));
        each(&mut self.other, false);
    }
}

// === impl Produced ===

impl Produced {
    /// How long it is, in bytes.
    pub fn len(&self) -> usize {
        self.output.iter().chain(&self.reasoning).map(String::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.output.is_empty() && self.reasoning.is_empty()
    }

    /// Counts it.
    pub fn count(&self) -> TextTokens {
        let count = |texts: &[String]| texts.iter().map(|text| tokens(text)).sum::<u64>();
        let reasoning = count(&self.reasoning);
        TextTokens { output: count(&self.output) + reasoning, reasoning }
    }

    fn push(&mut self, text: String, is_reasoning: bool) {
        if !text.is_empty() {
            if is_reasoning { self.reasoning.push(text) } else { self.output.push(text) }
        }
    }
}

/// The text in a value of a shape that is not known; all of it if it is nested too deeply to be read.
fn unknown_text(raw: &RawValue) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(value) => Cow::Owned(text_in(&value)),
        Err(_) => Cow::Borrowed(raw.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(meter: &mut Meter, choices: &str) {
        let json = format!(r#"{{"choices":[{choices}]}}"#);
        meter.observe(&ChunkView::parse(&json).unwrap(), AnswerForm::Stream);
    }

    fn observed(deltas: &[&str]) -> Meter {
        let mut meter = Meter::default();
        for delta in deltas {
            observe(&mut meter, &format!(r#"{{"delta":{delta}}}"#));
        }
        meter
    }

    #[test]
    fn what_was_produced_is_kept_by_kind() {
        let mut meter = observed(&[
            r#"{"reasoning_content":"","reasoning":"why\n"}"#,
            r#"{"reasoning_details":[{"text":"?"}],"content":"a"}"#,
            r#"{"content":[{"type":"text","text":"b"}],"tool_calls":[]}"#,
            r#"{"refusal":"no","tool_calls":[{"index":0,"function":{"name":"f"}}]}"#,
            r#"{"content":null,"function_call":{"arguments":"{}"}}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"text":"hm"}]}],"tool_calls":{}}"#,
        ]);
        assert_eq!(meter.produced_bytes(), 5 + 4 + 3 + 2);
        let produced = meter.take_produced();
        assert_eq!(produced.reasoning, ["why\n?"]);
        assert_eq!(produced.output, ["abno", "f", "{}", "hm"]);
        assert_eq!(produced.len(), meter.produced_bytes());
    }

    #[test]
    fn the_text_of_one_choice_is_not_put_between_that_of_another() {
        let mut meter = Meter::default();
        for (index, text) in [(0, "hel"), (1, "wor"), (0, "lo"), (1, "ld")] {
            observe(&mut meter, &format!(r#"{{"index":{index},"delta":{{"content":"{text}"}}}}"#));
        }
        assert_eq!(meter.take_produced().output, ["hello", "world"]);
    }

    #[test]
    fn calls_come_one_each_in_a_whole_answer_and_in_pieces_in_a_stream() {
        let texts = |form, lists: &[&str]| -> Vec<String> {
            let mut meter = Meter::default();
            for list in lists {
                let json = format!(r#"{{"choices":[{{"message":{{"tool_calls":{list}}}}}]}}"#);
                meter.observe(&ChunkView::parse(&json).unwrap(), form);
            }
            meter.take_produced().output
        };
        let two = r#"[{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g","arguments":"{}"}}]"#;
        assert_eq!(texts(AnswerForm::Whole, &[two]), ["f", "{}", "g", "{}"]);
        let begin = r#"[{"index":0,"function":{"name":"f","arguments":"{"}}]"#;
        let end = r#"[{"index":0,"function":{"arguments":"}"}}]"#;
        assert_eq!(texts(AnswerForm::Stream, &[begin, end]), ["f", "{}"]);
    }

    #[test]
    fn what_is_taken_off_to_be_counted_still_is_part_of_the_answer() {
        let long = format!(r#"{{"content":"{}end"}}"#, "word ".repeat(10_000));
        let mut meter = observed(&[&long]);
        assert_eq!((meter.output_bound(), meter.output_estimate()), (50_003, 12_500));
        let piece = meter.take_piece(100);
        assert_eq!(piece.len(), 50_003 - " end".len());
        assert_eq!((meter.output_bound(), meter.pending_bytes()), (50_003, 4));
        meter.piece_counted(Some(piece.count()));
        assert_eq!((meter.counted().output, meter.output_bound()), (10_000, 10_004));
        meter.count_here();
        assert_eq!((meter.output_bound(), meter.is_counted()), (10_001, true));
        assert_eq!(meter.produced_bytes(), 50_003);
        assert_eq!(meter.take_produced().output, [" end"]);
        assert!(meter.take_produced().is_empty());
    }

    #[test]
    fn text_counts_the_same_however_often_it_is_counted_on_the_way() {
        for (text, escaped) in [
            ("The quick brown fox, it's 12345.\n", r"The quick brown fox, it's 12345.\n"),
            ("日本語の文章、です。", "日本語の文章、です。"),
            ("สวัสดี ครับ", r"\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0e04\u0e23\u0e31\u0e1a"),
            ("😀 👍", r"\ud83d\ude00 \ud83d\udc4d"),
        ] {
            let mut meter = Meter::default();
            for number in 0..200 {
                observe(&mut meter, &format!(r#"{{"delta":{{"content":"{escaped}"}}}}"#));
                if number % 7 == 0 {
                    meter.count_here();
                }
            }
            meter.count_here();
            assert_eq!(meter.output_bound(), tokens(&text.repeat(200)), "{text}");
        }
    }

    #[test]
    fn little_text_is_kept_of_an_answer_without_end() {
        const LIMIT: usize = 64 * 1024;
        let word = "word ".repeat(800);
        let mut meter = Meter::default();
        while meter.produced_bytes() < 16 * 1024 * 1024 {
            // now here, now there: one text, many calls, reasoning
            let number = meter.produced_bytes() / 4_000 % 900;
            observe(
                &mut meter,
                &format!(
                    r#"{{"index":{},"delta":{{"content":"{word}","reasoning":"x",
                    "tool_calls":[{{"index":{number},"function":{{"arguments":"y"}}}}]}}}}"#,
                    number % 100
                ),
            );
            if meter.pending_bytes() > LIMIT {
                assert!(meter.take_piece(LIMIT / 16).len() <= LIMIT + 5_000);
                meter.piece_counted(None);
                assert!(meter.pending_bytes() <= LIMIT / 16);
            }
        }
        assert!(meter.take_produced().len() <= LIMIT + 5_000);
    }

    #[test]
    fn a_choice_that_nobody_asked_for_is_told_and_not_kept() {
        let mut meter = Meter::default();
        meter.asked(2);
        observe(&mut meter, r#"{"index":127,"delta":{"content":"a"}}"#);
        assert!(meter.check_choices().is_ok());
        for index in 128..10_000 {
            observe(&mut meter, &format!(r#"{{"index":{index},"delta":{{"content":"a"}}}}"#));
        }
        assert!(meter.check_choices().is_err());
        assert_eq!((meter.texts.len(), meter.pending_bytes()), (128, 1));
        meter = Meter::default();
        meter.asked(200);
        observe(&mut meter, r#"{"index":199,"delta":{}}"#);
        assert!(meter.check_choices().is_ok());
    }
}
