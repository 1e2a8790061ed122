//! Looks on as an answer passes: what it used, what it produced, how it ended.
//!
//! Text is kept as the escaped JSON that it came as, and decoded only if it has to be counted.

use serde_json::value::RawValue;

use crate::domain::usage::Usage;
use crate::wire::chunk::{ChunkView, PieceView};
use crate::wire::{first_byte, usage};

/// What is known of an answer so far.
#[derive(Debug, Default)]
pub struct Meter {
    /// What the upstream says that it used; the last word wins.
    pub usage: Option<Usage>,
    /// What it produced.
    pub produced: Produced,
    /// Whether some choice has ended.
    finished: bool,
    /// Choices that have begun and not ended.
    open: Vec<u32>,
    /// Whether some choice was cut by a length limit or a content filter.
    pub cut: bool,
}

/// What an answer holds, by kind. Strings are JSON text without its quotes.
#[derive(Debug, Default)]
pub struct Produced {
    /// Text, refusals included.
    pub content: String,
    /// Reasoning.
    pub reasoning: String,
    /// Raw JSON values of other kinds, tool calls above all, a line each.
    pub other: String,
}

impl Meter {
    /// Whether every choice that has begun has ended.
    pub fn is_finished(&self) -> bool {
        self.finished && self.open.is_empty()
    }

    /// Takes note of a chunk, or of a whole answer.
    pub fn observe(&mut self, view: &ChunkView<'_>) {
        if let Some(usage) = view.usage.and_then(usage::parse) {
            self.usage = Some(usage);
        }
        for choice in view.choices() {
            if let Some(piece) = choice.piece() {
                self.produced.add(piece);
            }
            if choice.finish_reason.is_some() {
                self.finished = true;
                self.open.retain(|&index| index != choice.index);
            } else if !self.open.contains(&choice.index) {
                self.open.push(choice.index);
            }
            self.cut |= choice.is_cut();
        }
    }
}

impl Produced {
    /// How much there is, in bytes.
    pub fn len(&self) -> usize {
        self.content.len() + self.reasoning.len() + self.other.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.reasoning.is_empty() && self.other.is_empty()
    }

    fn add(&mut self, piece: &PieceView<'_>) {
        for text in [piece.content, piece.refusal].into_iter().flatten() {
            add_text(&mut self.content, &mut self.other, text);
        }
        if let Some(text) = piece.reasoning() {
            add_text(&mut self.reasoning, &mut self.other, text);
        }
        if let Some(calls) = piece.tool_calls {
            add_line(&mut self.other, calls);
        }
    }
}

fn add_text(to: &mut String, other: &mut String, raw: &RawValue) {
    if first_byte(raw) == b'"' {
        to.push_str(&raw.get()[1..raw.get().len() - 1]);
    } else {
        add_line(other, raw);
    }
}

fn add_line(other: &mut String, raw: &RawValue) {
    other.push_str(raw.get());
    other.push('\n');
}
