//! What can lie over a screen; only one thing at a time, and it gets all keys.

use secrecy::SecretString;
use tui_input::Input;

use std::fmt;

use super::change::Change;
use super::form::Form;

/// What lies over the screen.
#[derive(Debug)]
pub enum Overlay {
    /// What the keys do on the screen below.
    Help {
        /// How many lines are above its upper edge.
        scroll: usize,
    },
    /// A command is being typed.
    Palette(Palette),
    /// The filter of the list below is being typed.
    Filter {
        /// What it is so far.
        input: Input,
        /// What it was before.
        before: String,
    },
    /// Something has to be filled in.
    Form(Box<Form>),
    /// Something has to be confirmed.
    Confirm(Confirm),
    /// A key's text, for the only time.
    Secret(Secret),
}

/// A command as far as it is typed.
#[derive(Debug, Default)]
pub struct Palette {
    /// What is typed.
    pub input: Input,
    /// Which of the commands that begin so is chosen.
    pub selected: usize,
}

/// A question whose answer is yes or no.
#[derive(Debug)]
pub struct Confirm {
    /// The question.
    pub question: String,
    /// What yes would mean.
    pub consequence: String,
    /// What yes does.
    pub change: Change,
}

/// A key's text. Closing the box wipes it from memory.
pub struct Secret {
    /// The key's label.
    pub label: String,
    /// The text.
    pub text: SecretString,
    /// Whether it was sent to the terminal's clipboard.
    pub copied: bool,
}

// === impl Secret ===

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secret").field("label", &self.label).finish_non_exhaustive()
    }
}
