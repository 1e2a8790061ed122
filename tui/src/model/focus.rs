//! The part of the screen that receives key events.

use super::screen::Screen;

/// The target of key events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The open screen. On the sign-in screen, most keys are text.
    Screen(Screen),
    /// The filter input.
    Filter,
    /// The command palette.
    Palette,
    /// The chart of the usage.
    Chart,
    /// The choice of columns.
    Columns,
    /// The choice of a value to copy.
    Values,
    /// The choice of a theme.
    Themes,
    /// A form above a screen.
    Form,
    /// A choice of what to open.
    Choose,
    /// A confirmation question.
    Confirm,
    /// The display of a new key's secret.
    Secret,
    /// Trying a model.
    Trial,
    /// The explanation of a route.
    Route,
    /// The help.
    Help,
    /// The search in the help.
    HelpSearch,
}

// === impl Focus ===

impl Focus {
    /// Returns whether characters without a binding are text input.
    pub fn takes_text(self) -> bool {
        matches!(
            self,
            Self::Screen(Screen::SignIn)
                | Self::Form
                | Self::Filter
                | Self::Palette
                | Self::Trial
                | Self::Help
                | Self::HelpSearch
        )
    }

    /// Returns the name in the help.
    pub fn name(self) -> &'static str {
        match self {
            Self::Screen(screen) => screen.name(),
            Self::Filter => "filter",
            Self::Palette => "command line",
            Self::Chart => "chart",
            Self::Columns => "columns",
            Self::Values => "values",
            Self::Themes => "themes",
            Self::Form => "forms",
            Self::Choose => "related rows",
            Self::Confirm => "questions",
            Self::Secret => "secrets",
            Self::Trial => "trying a model",
            Self::Route => "routes",
            Self::Help | Self::HelpSearch => "help",
        }
    }
}
