//! The report being written, or, for strict keys, the refusal instead of a note.

use super::path::{Path, shown};
use super::report::{Loss, LossReport};
use domain::refusal::{Refusal, RequestFault};

/// Takes down what is lost.
#[derive(Debug)]
pub(super) struct Notes {
    report: LossReport,
    strict: bool,
}

impl Notes {
    /// No note yet; a strict one will take none of what is lost.
    pub(super) fn new(strict: bool) -> Self {
        Self { report: LossReport::default(), strict }
    }

    /// Notes a loss of what is at `at`.
    ///
    /// # Errors
    /// The key is strict.
    pub(super) fn add(&mut self, loss: Loss, subject: &str, at: &Path<'_>) -> Result<(), Refusal> {
        let subject = shown(subject);
        if self.strict {
            let (code, what) = note_text(loss, &subject);
            return Err(at.refuse(code, format!("{what}, and this key is set to refuse any loss")));
        }
        self.report.add(loss, subject);
        Ok(())
    }

    /// Notes that something is left out in which nothing could be read. No refusal, not even on strict
    /// options: a client that has only this, and repeats it with every turn, could never go on.
    pub(super) fn add_unreadable(&mut self, loss: Loss, subject: &str) {
        self.report.add(loss, shown(subject));
    }

    /// The notes.
    pub(super) fn into_report(self) -> LossReport {
        self.report
    }
}

fn note_text(loss: Loss, subject: &str) -> (RequestFault, String) {
    use RequestFault::{InvalidValue, UnsupportedParameter, UnsupportedTools};
    match loss {
        Loss::GrammarNotEnforced => (
            UnsupportedTools,
            format!("the grammar of tool `{subject}` would be described, not enforced"),
        ),
        Loss::StrictNotEnforced => (
            UnsupportedTools,
            format!("`strict` of function `{subject}` would not be enforced by this upstream"),
        ),
        Loss::FieldIgnored => {
            (UnsupportedParameter, format!("`{subject}` would have no effect on this model"))
        }
        Loss::HostedToolOmitted => {
            (UnsupportedTools, format!("`{subject}` is hosted elsewhere and would be left out"))
        }
        Loss::OutputInvented => {
            (InvalidValue, format!("call `{subject}` has no output: one would be made up"))
        }
        Loss::ArgumentsWrapped => {
            (InvalidValue, format!("the arguments of call `{subject}` are not JSON"))
        }
        Loss::CallIdChanged => {
            (InvalidValue, format!("call id `{subject}` is used twice: one would be changed"))
        }
        Loss::ReasoningDropped => {
            (InvalidValue, format!("reasoning `{subject}` cannot be given back to this model"))
        }
        Loss::OutputCapLowered => {
            (InvalidValue, format!("`{subject}` is above the limit and would be lowered"))
        }
    }
}
