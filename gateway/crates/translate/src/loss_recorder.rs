//! Records losses, or refuses the request instead if the options are strict.

use super::path::{Path, excerpt};
use super::report::{Loss, LossReport};
use domain::refusal::{Refusal, RequestFault};

/// Collects the losses of one translation.
#[derive(Debug)]
pub(super) struct LossRecorder {
    report: LossReport,
    strict: bool,
}

impl LossRecorder {
    /// Creates an empty recorder. A strict one refuses every loss.
    pub(super) fn new(strict: bool) -> Self {
        Self { report: LossReport::default(), strict }
    }

    /// Records a loss of `subject` at `at`.
    ///
    /// # Errors
    /// The options are strict.
    pub(super) fn record(
        &mut self,
        loss: Loss,
        subject: &str,
        at: &Path<'_>,
    ) -> Result<(), Refusal> {
        let subject = excerpt(subject);
        if self.strict {
            let (code, what) = strict_refusal(loss, &subject);
            return Err(at.refuse(code, format!("{what}, and this key is set to refuse any loss")));
        }
        self.report.add(loss, subject);
        Ok(())
    }

    /// Records that an unreadable item was left out. Never refuses, not even with strict options: a
    /// client that has only the unreadable form and repeats it with every request could never
    /// continue.
    pub(super) fn record_unreadable(&mut self, loss: Loss, subject: &str) {
        self.report.add(loss, excerpt(subject));
    }

    /// Returns the recorded losses.
    pub(super) fn into_report(self) -> LossReport {
        self.report
    }
}

fn strict_refusal(loss: Loss, subject: &str) -> (RequestFault, String) {
    use RequestFault::{InvalidValue, UnsupportedParameter, UnsupportedTools};
    match loss {
        Loss::GrammarNotEnforced => (
            UnsupportedTools,
            format!(
                "the grammar of tool `{subject}` would be described to the model, but not enforced"
            ),
        ),
        Loss::StrictNotEnforced => (
            UnsupportedTools,
            format!("`strict` of function `{subject}` would not be enforced by this upstream"),
        ),
        Loss::FieldIgnored => {
            (UnsupportedParameter, format!("`{subject}` would have no effect on this model"))
        }
        Loss::HostedToolOmitted => {
            (UnsupportedTools, format!("`{subject}` is a hosted tool and would be left out"))
        }
        Loss::OutputInvented => {
            (InvalidValue, format!("call `{subject}` has no output; one would be synthesized"))
        }
        Loss::ArgumentsWrapped => {
            (InvalidValue, format!("the arguments of call `{subject}` are not JSON"))
        }
        Loss::CallIdChanged => {
            (InvalidValue, format!("call id `{subject}` is used twice; one would be replaced"))
        }
        Loss::ReasoningDropped => {
            (InvalidValue, format!("reasoning `{subject}` cannot be sent to this model"))
        }
        Loss::OutputCapLowered => {
            (InvalidValue, format!("`{subject}` is above the limit and would be lowered"))
        }
    }
}
