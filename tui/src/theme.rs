//! The one place with colours: named styles out of the 16 that every terminal has.
//!
//! Meaning is never in colour alone; without colours ([`Theme::plain`]) only weight is left.

use ratatui::style::{Color, Modifier, Style};

use crate::model::record::Status;

/// The styles by what they mean.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colours: bool,
}

impl Theme {
    /// Returns the theme with the terminal's own 16 colours.
    pub fn colourful() -> Self {
        Self { colours: true }
    }

    /// Returns the theme without any, for `NO_COLOR`.
    pub fn plain() -> Self {
        Self { colours: false }
    }

    /// What the eye should find first.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Labels, and what is out of date.
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Lines of boxes.
    pub fn border(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    /// Titles of boxes, keys.
    pub fn accent(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// The row or the place of the cursor.
    pub fn cursor(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// All is well.
    pub fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    /// Worth a look.
    pub fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// Something is wrong.
    pub fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// How a request ended.
    pub fn status(self, status: Option<Status>) -> Style {
        match status {
            Some(Status::Completed) => self.good(),
            Some(Status::Failed | Status::Interrupted) => self.bad(),
            Some(Status::Incomplete | Status::Cancelled | Status::Rejected) => self.warning(),
            None => self.faint(),
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }
}
