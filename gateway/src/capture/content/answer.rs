//! The text of an answer, read as it arrives.

use super::{MAX_TEXT_BYTES, Text};
use domain::wire::chunk::ChunkView;
use domain::wire::sse::{self, Splitter};
use domain::wire::text::text_of;

/// The largest plain answer and the largest event that are read, in bytes.
pub(super) const MAX_BUFFERED_BYTES: usize = 1024 * 1024;
/// The number of choices of which the text is kept.
pub(super) const MAX_CHOICES: usize = 16;

/// The answer so far.
#[derive(Default)]
pub(super) struct Answer {
    /// `None` before the first byte.
    form: Option<Form>,
    texts: ChoiceTexts,
}

/// The texts of the choices of an answer.
#[derive(Default)]
struct ChoiceTexts {
    /// By the index of the choice.
    choices: Vec<(u32, Text)>,
    /// The bytes of all texts.
    bytes: usize,
}

enum Form {
    Stream(Splitter),
    Plain(Vec<u8>),
    /// The rest is not read.
    Abandoned,
}

// === impl Answer ===

impl Answer {
    /// Reads the next bytes, unless the answer cannot be read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.form.is_none() {
            let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            self.form = Some(match first {
                b'{' => Form::Plain(Vec::new()),
                _ => Form::Stream(Splitter::default()),
            });
        }
        let Self { form, texts } = self;
        let is_readable = match form {
            Some(Form::Stream(splitter)) => {
                splitter.push(bytes, |event| texts.read_event(event)).is_ok()
            }
            Some(Form::Plain(body)) => {
                body.extend_from_slice(bytes);
                true
            }
            Some(Form::Abandoned) | None => true,
        };
        if !is_readable || self.buffered() > MAX_BUFFERED_BYTES {
            self.abandon();
        }
    }

    /// Stops reading. The text so far is the beginning of a longer one.
    pub(super) fn abandon(&mut self) {
        self.form = Some(Form::Abandoned);
        self.texts.choices.iter_mut().for_each(|(_, text)| text.text.is_cut = true);
    }

    /// Reads what is left at the end of the answer.
    pub(super) fn finish(&mut self) {
        match self.form.take() {
            Some(Form::Stream(mut splitter)) => self.texts.read_event(&splitter.finish()),
            Some(Form::Plain(body)) => self.texts.read_json(&body),
            Some(Form::Abandoned) | None => {}
        }
    }

    /// Returns the length of what was received but not read, in bytes.
    pub(super) fn buffered(&self) -> usize {
        match &self.form {
            Some(Form::Stream(splitter)) => splitter.partial_bytes(),
            Some(Form::Plain(body)) => body.len(),
            Some(Form::Abandoned) | None => 0,
        }
    }

    /// Returns the texts of the choices, as its end.
    pub(super) fn into_choices(self) -> Vec<Text> {
        self.texts.choices.into_iter().map(|(_, text)| text).collect()
    }

    /// Returns the texts of the choices.
    pub(super) fn choices(&self) -> impl Iterator<Item = &Text> {
        self.texts.choices.iter().map(|(_, text)| text)
    }
}

// === impl ChoiceTexts ===

impl ChoiceTexts {
    fn read_event(&mut self, event: &[u8]) {
        if let Some(data) = sse::data(event) {
            self.read_json(&data);
        }
    }

    /// Reads a chunk or a plain answer. Others, such as the end marker of a stream, have no text.
    fn read_json(&mut self, json: &[u8]) {
        let Ok(json) = std::str::from_utf8(json) else { return };
        let Ok(chunk) = ChunkView::parse(json) else { return };
        for choice in chunk.choices() {
            let at = match self.choices.iter().position(|(index, _)| *index == choice.index) {
                Some(at) => at,
                None if self.choices.len() < MAX_CHOICES => {
                    self.choices.push((choice.index, Text::new("assistant")));
                    self.choices.len() - 1
                }
                None => continue,
            };
            let text = &mut self.choices[at].1;
            if let Some(piece) = choice.piece() {
                for raw in [piece.content, piece.refusal] {
                    let room = MAX_TEXT_BYTES - self.bytes;
                    self.bytes += text.push_escaped(&text_of(raw), room);
                }
                text.text.has_calls |= piece.calls().map_or(true, |calls| !calls.is_empty());
            }
            text.text.finish = choice.finish().or(text.text.finish);
        }
    }
}
