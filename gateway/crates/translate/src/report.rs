//! The losses and repairs of a translation, for a response header and the request record.

use std::fmt::{self, Write as _};

/// The response header that lists the losses; absent if there are none.
pub const HEADER: &str = "x-tollgate-translation";

/// The length at which the header value is cut, between notes.
const MAX_HEADER_BYTES: usize = 1_000;

/// The number of notes kept: a request can hold 100,000 items, each with a loss.
const MAX_NOTES: usize = 200;

/// The losses and repairs of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossReport {
    notes: Vec<Note>,
}

/// One loss or repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind of loss.
    pub loss: Loss,
    /// The affected tool name, field or call id.
    pub subject: String,
}

/// The kinds of losses and repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The grammar of a custom tool is described to the model but not enforced (`T-8`).
    GrammarNotEnforced,
    /// A function's `strict: true` is not enforced by this upstream (`T-1b`).
    StrictNotEnforced,
    /// A field has no effect (`Q-22`, `Q-23`, `Q-35`).
    FieldIgnored,
    /// A hosted tool, or its record in the history, was left out by the operator's policy (§9.7).
    HostedToolOmitted,
    /// A call in the history had no output; one was synthesized (`I-23`).
    OutputInvented,
    /// The arguments of a call in the history are not JSON and were wrapped (`I-9b`).
    ArgumentsWrapped,
    /// A call id of the history was used more than once and was replaced (`I-24`).
    CallIdChanged,
    /// Reasoning of the history was left out: it had no assistant message to attach to (`I-27`),
    /// the upstream accepts none, or it had no readable text (`I-12`).
    ReasoningDropped,
    /// The output cap was lowered.
    OutputCapLowered,
}

impl LossReport {
    /// Adds a note unless it is already present. Keeps the first 200.
    pub fn add(&mut self, loss: Loss, subject: impl Into<String>) {
        let note = Note { loss, subject: subject.into() };
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the notes in the order of their addition.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the header value, such as `grammar_not_enforced=apply_patch; field_ignored=foo`;
    /// `None` if there are no notes. Contains only printable ASCII.
    pub fn header(&self) -> Option<String> {
        let mut value = String::new();
        for note in &self.notes {
            let mut one = note.to_string();
            one.retain(|character| character.is_ascii_graphic());
            if value.len() + one.len() > MAX_HEADER_BYTES {
                value.push(';');
                break;
            }
            if !value.is_empty() {
                value.push_str("; ");
            }
            value.push_str(&one);
        }
        (!value.is_empty()).then_some(value)
    }
}

impl Loss {
    /// Returns the name used in the header and in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GrammarNotEnforced => "grammar_not_enforced",
            Self::StrictNotEnforced => "strict_not_enforced",
            Self::FieldIgnored => "field_ignored",
            Self::HostedToolOmitted => "hosted_tool_omitted",
            Self::OutputInvented => "output_invented",
            Self::ArgumentsWrapped => "arguments_wrapped",
            Self::CallIdChanged => "call_id_changed",
            Self::ReasoningDropped => "reasoning_dropped",
            Self::OutputCapLowered => "output_cap_lowered",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.loss.as_str())?;
        f.write_char('=')?;
        self.subject.chars().take(80).try_for_each(|character| f.write_char(character))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_listed_once() {
        let mut report = LossReport::default();
        assert_eq!(report.header(), None);
        report.add(Loss::GrammarNotEnforced, "apply_patch");
        report.add(Loss::FieldIgnored, "früh\n");
        report.add(Loss::GrammarNotEnforced, "apply_patch");
        let header = report.header().unwrap();
        assert_eq!(header, "grammar_not_enforced=apply_patch; field_ignored=frh");
        assert_eq!(report.notes().len(), 2);
    }

    #[test]
    fn a_long_header_is_cut_between_notes() {
        let mut report = LossReport::default();
        for n in 0..1_000 {
            report.add(Loss::OutputInvented, format!("call_{n}"));
        }
        let header = report.header().unwrap();
        assert!(header.len() <= MAX_HEADER_BYTES + 80);
        assert!(header.ends_with(';'), "shows that there is more: {header}");
    }
}
