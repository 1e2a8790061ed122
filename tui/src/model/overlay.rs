//! Overlays above a screen. At most one is open, and it receives all key events.

use secrecy::SecretString;
use tui_input::Input;

use std::fmt;

use super::change::{Change, SecretKind};
use super::chart::ChartView;
use super::choices::{ColumnChoice, ThemeChoice, ValueChoice};
use super::filter::FilterInput;
use super::form::Form;
use super::route::RouteView;
use super::trail::Related;
use super::trial::Trial;

/// The overlay above the screen.
#[derive(Debug)]
pub enum Overlay {
    /// The keys and commands.
    Help(Help),
    /// The command palette.
    Palette(Palette),
    /// The filter input for the list below.
    Filter(FilterInput),
    /// A choice of what belongs to the selected row.
    Choose(Choice),
    /// The chart of the usage.
    Chart(ChartView),
    /// The columns of the table below.
    Columns(ColumnChoice),
    /// The values of the selected row.
    Values(ValueChoice),
    /// The themes.
    Themes(ThemeChoice),
    /// A form.
    Form(Box<Form>),
    /// A confirmation question.
    Confirm(Confirm),
    /// A secret that is shown only once.
    Secret(Secret),
    /// Trying a model.
    Trial(Box<Trial>),
    /// The explanation of how requests for a model are routed.
    Route(RouteView),
}

/// The state of the help.
#[derive(Debug, Default)]
pub struct Help {
    /// What is searched; empty for everything.
    pub input: Input,
    /// Whether keys are text of the search.
    pub is_typing: bool,
    /// The index of the selected row among those that the search finds.
    pub selected: usize,
    /// The form below, which comes back when the help is closed.
    pub form: Option<Box<Form>>,
}

/// The state of the command palette.
#[derive(Debug, Default)]
pub struct Palette {
    /// The typed text.
    pub input: Input,
    /// The index of the selected command among the matching ones.
    pub selected: usize,
}

/// A choice of what belongs to a row.
#[derive(Debug)]
pub struct Choice {
    /// The name of the row.
    pub name: String,
    /// What belongs to it.
    pub options: &'static [Related],
    /// The index of the selected option.
    pub selected: usize,
}

/// A question before an irreversible or disruptive change.
#[derive(Debug)]
pub struct Confirm {
    /// The question.
    pub question: String,
    /// The consequence of confirming.
    pub consequence: String,
    /// The change to request on confirmation.
    pub change: Change,
}

/// A secret that the gateway returned only once. Dropping it wipes it from memory.
pub struct Secret {
    /// What it is.
    pub kind: SecretKind,
    /// The key's label or the account's name.
    pub label: String,
    /// The secret itself.
    pub text: SecretString,
    /// The models that a key may use; empty means all models of the plan.
    pub models: Vec<String>,
    /// What the user did with it.
    pub state: SecretState,
}

/// What the user did with a displayed secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretState {
    /// Nothing yet.
    Shown,
    /// The user asked to close the box before copying the secret; the next time it is closed.
    Closing,
    /// It was sent to the terminal's clipboard.
    Copied,
}

// === impl Secret ===

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secret").field("label", &self.label).finish_non_exhaustive()
    }
}
