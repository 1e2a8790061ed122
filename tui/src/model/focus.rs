//! The part of the screen that receives key events.

use super::screen::Screen;

/// Who gets the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The open screen; on the one to sign in, most keys are text.
    Screen(Screen),
    /// A filter that is being typed.
    Filter,
    /// A command that is being typed.
    Palette,
    /// A form that lies over a screen.
    Form,
    /// A question.
    Confirm,
    /// A key's text.
    Secret,
    /// The help that lies over a screen.
    Help,
}

// === impl Focus ===

impl Focus {
    /// Says whether keys that mean nothing else are text there.
    pub fn takes_text(self) -> bool {
        matches!(self, Self::Screen(Screen::SignIn) | Self::Form | Self::Filter | Self::Palette)
    }
}
