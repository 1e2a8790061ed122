//! Looks on as an answer passes: what it used, what it produced, how it ended.
//!
//! Text is kept, unescaped, only until it is counted, and whoever feeds the meter has it counted before
//! there is much of it: memory does not grow with the answer.

use std::ops::AddAssign;

use super::calls::Calls;
use super::choices::Choices;
use super::count::{TextTokens, tokens};
use super::pieces::Text;
use crate::upstream::UpstreamError;
use domain::wire::chunk::{AnswerForm, ChoiceView, ChunkView, PieceView};
use domain::wire::finish::FinishReason;
use domain::wire::text::{FieldKind, Strings, strings_in};
use domain::wire::usage::UsageReport;

/// The answers to one request have indices below this, unless it asked for more of them.
const MAX_CHOICES: u32 = 128;
/// The text of ordinary answers has more bytes to a token than this, whatever its language.
const BYTES_PER_TOKEN: u64 = 4;
/// Recordings, images and encrypted reasoning have about as many bytes of base64 to a token: a picture of a
/// mebibyte is one to two thousand tokens, a second of sound twenty.
const DATA_BYTES_PER_TOKEN: usize = 1024;

/// What is known of an answer so far.
#[derive(Debug, Default)]
pub struct Meter {
    /// What the upstream says that it used; the last word wins.
    pub reported: Option<UsageReport>,
    /// How much of the answer had come with the chunk of that report, in bytes.
    reported_bytes: usize,
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
    /// All text so far, in bytes.
    produced_bytes: usize,
    /// The tokens of all base64 so far.
    data_tokens: u64,
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
    /// All text of the choice so far, in bytes.
    bytes: usize,
}

/// What a part of a chunk adds to an answer, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    /// Of text.
    bytes: usize,
    /// Of the escaped JSON that it came as.
    received: usize,
}

/// Text taken off to be counted, each by itself.
#[derive(Clone, Debug, Default)]
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
        for choice in view.choices() {
            if let Some(index) = self.choice(choice) {
                self.add(index, choice, form);
                self.choices.observe(choice);
                let finish = choice.finish();
                self.cut |= matches!(finish, Some(FinishReason::Length | FinishReason::Filter));
                self.broken |= finish == Some(FinishReason::Broken);
            }
        }
        if let Some(reported) = view.usage.and_then(UsageReport::parse) {
            self.reported = Some(reported);
            self.reported_bytes = self.produced_bytes();
        }
    }

    /// Whether more of the answer came after the last report, which then says too little.
    pub(super) fn is_report_outdated(&self) -> bool {
        self.reported.is_some() && self.produced_bytes() > self.reported_bytes
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

    /// How much text it produced so far, in bytes; anything else at the length of text with as many tokens.
    pub fn produced_bytes(&self) -> usize {
        let data = self.data_tokens.saturating_mul(BYTES_PER_TOKEN);
        self.produced_bytes.saturating_add(usize::try_from(data).unwrap_or(usize::MAX))
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

    /// Adds what a choice of a chunk holds.
    fn add(&mut self, index: usize, view: &ChoiceView<'_>, form: AnswerForm) {
        let mut added = Added::default();
        if let Some(piece) = view.piece() {
            added += self.add_piece(index, piece, form);
        }
        for strings in view.unknown_strings() {
            added += self.add_strings(index, &strings);
        }
        if let Some(message) = view.repeated_message() {
            // It says again what its choice has said so far, or what no delta says.
            let is_repetition = added.bytes > 0 || view.finish().is_some();
            let said = if is_repetition { self.texts[index].bytes + added.bytes } else { 0 };
            added += self.add_beyond(said, index, message, form);
        }
        if added.bytes == 0
            && let Some(logprobs) = view.logprobs
        {
            // The tokens are the text once more, except where there is no text.
            added += self.add_strings(index, &strings_in(FieldKind::Text, logprobs));
        }
        self.texts[index].bytes += added.bytes;
        self.note(added);
    }

    fn add_piece(&mut self, index: usize, piece: &PieceView<'_>, form: AnswerForm) -> Added {
        let mut added = Added::default();
        for strings in piece.reasoning_strings() {
            let bytes = self.texts[index].reasoning.push_escaped(&strings.text);
            added += Added { bytes, received: strings.text.len() };
            added += self.add_data(strings.data_bytes);
        }
        for strings in piece.content_strings() {
            added += self.add_strings(index, &strings);
        }
        for strings in piece.unknown_strings() {
            added += self.add_strings(index, &strings);
        }
        match piece.calls() {
            Ok(calls) => {
                let number = u32::try_from(index).unwrap_or(u32::MAX);
                for call in calls {
                    let bytes = self.calls.add(number, call, form);
                    added += Added { bytes, received: call.name.len() + call.arguments.len() };
                    for field in &call.unknown {
                        added += self.add_strings(index, &field.strings());
                    }
                }
            }
            Err(malformed) => {
                let strings = strings_in(FieldKind::Text, malformed.raw);
                added += self.add_strings(index, &strings);
            }
        }
        added
    }

    fn add_strings(&mut self, index: usize, strings: &Strings<'_>) -> Added {
        let bytes = self.texts[index].content.push_escaped(&strings.text);
        let mut added = Added { bytes, received: strings.text.len() };
        added += self.add_data(strings.data_bytes);
        added
    }

    /// Adds base64, which is not kept: its tokens are not those of its letters.
    fn add_data(&mut self, bytes: usize) -> Added {
        let tokens = bytes.div_ceil(DATA_BYTES_PER_TOKEN) as u64;
        self.counted.output = self.counted.output.saturating_add(tokens);
        self.data_tokens += tokens;
        Added { bytes: 0, received: bytes }
    }

    /// Adds as much of a message as is longer than the `said` bytes that it may repeat.
    fn add_beyond(
        &mut self,
        said: usize,
        index: usize,
        message: &PieceView<'_>,
        form: AnswerForm,
    ) -> Added {
        let mut apart = Self::default();
        apart.texts.push(ChoiceText::default());
        let Added { received, .. } = apart.add_piece(0, message, form);
        self.counted += apart.counted;
        self.data_tokens += apart.data_tokens;
        let text = apart.take_produced().concat();
        let start = text.ceil_char_boundary(said.min(text.len()));
        Added { bytes: self.texts[index].content.push(&text[start..]), received }
    }

    fn note(&mut self, added: Added) {
        self.received_bytes += added.received;
        self.produced_bytes += added.bytes;
        self.pending_bytes += added.bytes;
        self.fresh_bytes += added.bytes;
    }

    /// Calls `each` with every text, and whether it is reasoning.
    fn each_text(&mut self, mut each: impl FnMut(&mut Text, bool)) {
        for choice in &mut self.texts {
            each(&mut choice.content, false);
            each(&mut choice.reasoning, true);
        }
        self.calls.texts_mut().for_each(|text| each(text, false));
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

    fn concat(&self) -> String {
        self.output.iter().chain(&self.reasoning).map(String::as_str).collect()
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

// === impl Added ===

impl AddAssign for Added {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.received += more.received;
    }
}

#[cfg(test)]
mod tests;
