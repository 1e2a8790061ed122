//! Observes an answer as it passes: its usage, its text and its end.
//!
//! Unescaped text is kept only until it is counted, and the caller counts it before there is much of it, so
//! that memory does not grow with the answer.

use std::ops::AddAssign;

use super::calls::Calls;
use super::choices::{Choices, MAX_CHOICES};
use super::count::{TextTokens, UncountedText, tokens};
use super::pending_text::PendingText;
use crate::upstream::UpstreamError;
use domain::wire::chunk::{AnswerForm, ChoiceView, ChunkView, OnlyText};
use domain::wire::finish::FinishReason;
use domain::wire::piece::{PieceView, TextKind};
use domain::wire::text::{FieldKind, Strings, strings_in};
use domain::wire::usage::UsageReport;

/// The longest answer that is accepted, in bytes: of a plain answer the body, of a stream the text as escaped
/// JSON.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Ordinary text has more bytes per token than this, in any language.
const BYTES_PER_TOKEN: u64 = 4;
/// The bytes of base64 per token of audio, images and encrypted reasoning: a picture of one mebibyte has one
/// to two thousand tokens, a second of sound twenty.
const DATA_BYTES_PER_TOKEN: usize = 1024;

/// What is known of an answer so far.
///
/// Its text passes through these counters:
///
/// 1. What arrives adds to `received_bytes` as escaped JSON, and to `text_bytes` unescaped.
/// 2. It is kept until it is counted, in `texts` and `calls`; `pending_bytes` is the length of what is kept.
///    [`count_here`](Self::count_here) counts it, and keeps the last words, which may continue: `tail_tokens` is their
///    count, and `fresh_bytes` the length of what has arrived since then.
/// 3. [`take_batch`](Self::take_batch) takes it, and `counting_bytes` is the length of what was taken.
///    [`batch_counted`](Self::batch_counted) adds its tokens to `counted`.
///
/// Base64 is not kept: its tokens are estimated by its length, and added to `counted` and `data_tokens` at once.
#[derive(Debug, Default)]
pub struct Meter {
    /// The usage that the upstream reports; the last report counts.
    pub reported: Option<UsageReport>,
    /// The length of the answer when that report arrived, in bytes.
    reported_bytes: usize,
    /// Whether a length limit or a content filter cut a choice.
    pub is_truncated: bool,
    /// Whether the upstream reports that it failed in a choice.
    pub has_failed: bool,
    /// Whether the gateway ended the answer, before the upstream could report its usage.
    pub is_ended_by_gateway: bool,
    /// The number of requested choices.
    requested_choices: u32,
    /// The states of the choices.
    choices: Choices,
    /// The text of each choice, by index.
    texts: Vec<ChoiceText>,
    /// The index of a choice that is out of range; see [`check_choices`](Self::check_choices).
    out_of_range_choice: Option<u32>,
    calls: Calls,
    /// The text so far without base64, in bytes; see [`produced_bytes`](Self::produced_bytes).
    text_bytes: usize,
    /// The tokens of the base64 so far.
    data_tokens: u64,
    /// The text so far as escaped JSON, in bytes.
    received_bytes: usize,
    /// The kept text, in bytes.
    pending_bytes: usize,
    /// The tokens of the text that is not kept any more.
    counted: TextTokens,
    /// The text that was taken and is being counted, in bytes.
    counting_bytes: usize,
    /// The tokens of the kept text when it was last counted.
    tail_tokens: u64,
    /// The text that arrived since then, in bytes.
    fresh_bytes: usize,
}

/// The text of one choice that is not counted yet.
#[derive(Debug, Default)]
struct ChoiceText {
    /// Text, refusals included.
    content: PendingText,
    reasoning: PendingText,
    /// The text of the choice so far, in bytes.
    bytes: usize,
}

/// What a part of a chunk adds to an answer, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct AddedBytes {
    /// Text.
    bytes: usize,
    /// The same as escaped JSON.
    received: usize,
}

// === impl Meter ===

impl Meter {
    /// Returns whether all requested choices have begun and ended.
    pub fn is_finished(&self) -> bool {
        self.choices.is_finished(self.requested_choices as usize)
    }

    /// Returns whether no choice has begun.
    pub fn has_no_choice(&self) -> bool {
        self.choices.is_empty()
    }

    /// Returns whether all choices have ended given the end marker of a stream or the end of a plain answer.
    pub fn is_finished_by_marker(&self) -> bool {
        self.choices.is_finished_by_marker()
    }

    /// Sets the number of requested choices.
    pub fn set_requested_choices(&mut self, choices: u64) {
        self.requested_choices = u32::try_from(choices).unwrap_or(u32::MAX);
    }

    /// Observes a chunk or a plain answer.
    pub fn observe(&mut self, view: &ChunkView<'_>, form: AnswerForm) {
        for choice in view.choices() {
            if let Some(index) = self.choice(choice.index) {
                self.add(index, choice, form);
                let finish = choice.finish();
                self.choices.observe(choice.index, finish);
                self.is_truncated |=
                    matches!(finish, Some(FinishReason::Length | FinishReason::Filter));
                self.has_failed |= finish == Some(FinishReason::Failed);
            }
        }
        if let Some(reported) = view.usage.and_then(UsageReport::parse) {
            self.reported = Some(reported);
            self.reported_bytes = self.produced_bytes();
        }
    }

    /// Observes a chunk that has nothing else to observe than a text.
    pub fn observe_text(&mut self, text: &OnlyText<'_>) {
        let Some(index) = self.choice(text.index) else { return };
        let strings = strings_in(FieldKind::Text, text.raw);
        let added = match text.kind {
            TextKind::Content => self.add_strings(index, &strings),
            TextKind::Reasoning => self.add_reasoning(index, &strings),
        };
        self.texts[index].bytes += added.bytes;
        self.note(added);
        self.choices.observe(text.index, None);
    }

    /// Returns whether more of the answer followed the last report, which is then a lower bound.
    pub(super) fn is_report_outdated(&self) -> bool {
        self.reported.is_some() && self.produced_bytes() > self.reported_bytes
    }

    /// Checks the indices of choices. They may exceed the number of requested choices, because some servers number them
    /// in other ways, but not 128 as well.
    ///
    /// # Errors
    /// The upstream sent a choice with a higher index.
    pub fn check_choices(&self) -> Result<(), UpstreamError> {
        self.out_of_range_choice.map_or(Ok(()), |index| {
            Err(UpstreamError::Invalid(format!("it sent a choice with the index {index}")))
        })
    }

    /// Returns the text so far in bytes; other content counts as text with as many tokens.
    pub fn produced_bytes(&self) -> usize {
        let data = self.data_tokens.saturating_mul(BYTES_PER_TOKEN);
        self.text_bytes.saturating_add(usize::try_from(data).unwrap_or(usize::MAX))
    }

    /// Returns the text so far as escaped JSON, in bytes.
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Returns the kept text, in bytes.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Returns a bound on the output tokens so far: at most one per byte of uncounted text.
    pub fn output_bound(&self) -> u64 {
        let uncounted = (self.counting_bytes + self.fresh_bytes) as u64;
        self.counted.output.saturating_add(self.tail_tokens).saturating_add(uncounted)
    }

    /// Returns an estimate of the output tokens so far.
    pub fn output_estimate(&self) -> u64 {
        let uncounted = (self.counting_bytes + self.fresh_bytes) as u64 / BYTES_PER_TOKEN;
        self.counted.output.saturating_add(self.tail_tokens).saturating_add(uncounted)
    }

    /// Returns whether all text is counted, so that [`output_bound`](Self::output_bound) is exact.
    pub fn is_counted(&self) -> bool {
        self.counting_bytes == 0 && self.fresh_bytes == 0
    }

    /// Returns the tokens of the text that was taken and counted.
    pub fn counted(&self) -> TextTokens {
        self.counted
    }

    /// Counts all text inline, and keeps only words that may continue.
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

    /// Takes all uncounted text.
    pub fn take_uncounted(&mut self) -> UncountedText {
        let mut produced = UncountedText::default();
        self.each_text(|text, is_reasoning| produced.push(text.take(), is_reasoning));
        self.taken();
        produced
    }

    /// Takes the text that can be counted separately; its count must be passed to
    /// [`batch_counted`](Self::batch_counted). At most `max_rest` bytes are left.
    pub fn take_batch(&mut self, max_rest: usize) -> UncountedText {
        let (mut produced, mut rest) = (UncountedText::default(), 0);
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

    /// Adds the tokens of the batch that was last taken; `None` means that it could not be counted, and its
    /// length is used as an estimate.
    pub fn batch_counted(&mut self, tokens: Option<TextTokens>) {
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

    /// Returns the slot of the choice's text; `None` if its index is out of range.
    fn choice(&mut self, index: u32) -> Option<usize> {
        if index >= self.requested_choices.max(MAX_CHOICES.into()) {
            self.out_of_range_choice = Some(index);
            return None;
        }
        let index = usize::try_from(index).ok()?;
        if self.texts.len() <= index {
            self.texts.resize_with(index + 1, ChoiceText::default);
        }
        Some(index)
    }

    /// Adds the content of a choice of a chunk.
    fn add(&mut self, index: usize, view: &ChoiceView<'_>, form: AnswerForm) {
        let mut added = AddedBytes::default();
        if let Some(piece) = view.piece() {
            added += self.add_piece(index, piece, form);
        }
        for strings in view.unknown_strings() {
            added += self.add_strings(index, &strings);
        }
        if let Some(message) = view.repeated_message() {
            // It repeats what the choice has said so far, or contains what no delta contained.
            let is_repetition = added.bytes > 0 || view.finish().is_some();
            let said = if is_repetition { self.texts[index].bytes + added.bytes } else { 0 };
            added += self.add_beyond(said, index, message, form);
        }
        if added.bytes == 0
            && let Some(logprobs) = view.logprobs
        {
            // The tokens repeat the text, unless there is no text.
            added += self.add_strings(index, &strings_in(FieldKind::Text, logprobs));
        }
        self.texts[index].bytes += added.bytes;
        self.note(added);
    }

    fn add_piece(&mut self, index: usize, piece: &PieceView<'_>, form: AnswerForm) -> AddedBytes {
        let mut added = AddedBytes::default();
        for strings in piece.reasoning_strings() {
            added += self.add_reasoning(index, &strings);
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
                    added += AddedBytes { bytes, received: call.name.len() + call.arguments.len() };
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

    fn add_strings(&mut self, index: usize, strings: &Strings<'_>) -> AddedBytes {
        let bytes = self.texts[index].content.push_escaped(&strings.text);
        let mut added = AddedBytes { bytes, received: strings.text.len() };
        added += self.add_data(strings.data_bytes);
        added
    }

    fn add_reasoning(&mut self, index: usize, strings: &Strings<'_>) -> AddedBytes {
        let bytes = self.texts[index].reasoning.push_escaped(&strings.text);
        let mut added = AddedBytes { bytes, received: strings.text.len() };
        added += self.add_data(strings.data_bytes);
        added
    }

    /// Adds base64, which is not kept: its tokens are not those of its characters.
    fn add_data(&mut self, bytes: usize) -> AddedBytes {
        let tokens = bytes.div_ceil(DATA_BYTES_PER_TOKEN) as u64;
        self.counted.output = self.counted.output.saturating_add(tokens);
        self.data_tokens += tokens;
        AddedBytes { bytes: 0, received: bytes }
    }

    /// Adds the part of a message that exceeds the `said` bytes that it may repeat.
    fn add_beyond(
        &mut self,
        said: usize,
        index: usize,
        message: &PieceView<'_>,
        form: AnswerForm,
    ) -> AddedBytes {
        let mut scratch = Self::default();
        scratch.texts.push(ChoiceText::default());
        let AddedBytes { received, .. } = scratch.add_piece(0, message, form);
        self.counted += scratch.counted;
        self.data_tokens += scratch.data_tokens;
        let text = scratch.take_uncounted().concat();
        let start = text.ceil_char_boundary(said.min(text.len()));
        AddedBytes { bytes: self.texts[index].content.push(&text[start..]), received }
    }

    fn note(&mut self, added: AddedBytes) {
        self.received_bytes += added.received;
        self.text_bytes += added.bytes;
        self.pending_bytes += added.bytes;
        self.fresh_bytes += added.bytes;
    }

    /// Calls `each` with every text, and whether it is reasoning.
    fn each_text(&mut self, mut each: impl FnMut(&mut PendingText, bool)) {
        for choice in &mut self.texts {
            each(&mut choice.content, false);
            each(&mut choice.reasoning, true);
        }
        self.calls.texts_mut().for_each(|text| each(text, false));
    }
}

// === impl AddedBytes ===

impl AddAssign for AddedBytes {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.received += more.received;
    }
}

#[cfg(test)]
mod tests;
