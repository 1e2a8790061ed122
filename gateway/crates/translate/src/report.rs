//! What a translation lost or mended, for the response's header and the request's record.

use std::fmt::{self, Write as _};

/// The header that names each loss, on the answer to a request that had one.
pub const HEADER: &str = "x-tollgate-translation";

/// Longer header values are cut at a whole note.
const MAX_HEADER_BYTES: usize = 1_000;

/// More notes than these are not kept: a request can hold 100,000 items, each with a loss.
const MAX_NOTES: usize = 200;

/// Everything that was lost or mended in one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossReport {
    notes: Vec<Note>,
}

/// One thing that was lost or mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What happened.
    pub loss: Loss,
    /// To what: a tool's name, a field, a call id.
    pub subject: String,
}

/// What can happen to a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// A custom tool's grammar is described to the model, not enforced (`T-8`).
    GrammarNotEnforced,
    /// A function's `strict: true` is not enforced by this upstream (`T-1b`).
    StrictNotEnforced,
    /// A field has no effect here (`Q-22`, `Q-23`, `Q-35`).
    FieldIgnored,
    /// A hosted tool, or its record in the history, was left out as the operator wants it (§9.7).
    HostedToolOmitted,
    /// A call in the history had no output and was given one (`I-23`).
    OutputInvented,
    /// A call in the history had arguments that are not JSON (`I-9b`).
    ArgumentsWrapped,
    /// Call ids of the history were used twice and made distinct (`I-24`).
    CallIdChanged,
    /// Reasoning of the history was left out: it had no message to go with (`I-27`), this upstream takes
    /// none, or there was nothing in it that could be read (`I-12`).
    ReasoningDropped,
    /// The output cap was lowered.
    OutputCapLowered,
}

impl LossReport {
    /// Adds a note, once. The first 200 are kept.
    pub fn add(&mut self, loss: Loss, subject: impl Into<String>) {
        let note = Note { loss, subject: subject.into() };
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// All notes, in the order in which they were made.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The header's value, such as `grammar_not_enforced=apply_patch; field_ignored=foo`; `None`
    /// where nothing was lost. ASCII only.
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
    /// Its name in the header and in records.
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
    fn each_loss_is_named_once() {
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
    fn a_long_report_keeps_whole_notes() {
        let mut report = LossReport::default();
        for n in 0..1_000 {
            report.add(Loss::OutputInvented, format!("call_{n}"));
        }
        let header = report.header().unwrap();
        assert!(header.len() <= MAX_HEADER_BYTES + 80);
        assert!(header.ends_with(';'), "shows that there is more: {header}");
    }
}
