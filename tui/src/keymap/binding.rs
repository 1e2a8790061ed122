//! A row of the key map and the builder functions for the table.

use crossterm::event::{KeyCode, KeyModifiers};

use crate::model::{Action, Focus, Screen};

/// A row of the key map.
#[derive(Debug)]
pub struct Binding {
    /// Where the binding is active.
    pub focus: &'static [Focus],
    /// Alternative keys; empty if only the palette offers the action.
    pub keys: &'static [(KeyModifiers, KeyCode)],
    /// The triggered action.
    pub action: Action,
    /// The description in the help.
    pub help: &'static str,
    /// The label in the footer, if the binding appears there.
    pub hint: Option<&'static str>,
    /// The name of the equivalent palette command, if there is one.
    pub command: Option<&'static str>,
    /// Other words that people look for when they mean this, for the searches in the help and in the
    /// palette.
    pub synonyms: &'static str,
}

/// Returns a binding without a footer hint or a palette command.
pub(super) const fn row(
    focus: &'static [Focus],
    keys: &'static [(KeyModifiers, KeyCode)],
    action: Action,
    help: &'static str,
) -> Binding {
    Binding { focus, keys, action, help, hint: None, command: None, synonyms: "" }
}

// === impl Binding ===

impl Binding {
    /// Adds a footer hint.
    pub(super) const fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Adds a palette command.
    pub(super) const fn command(self, command: &'static str) -> Self {
        Self { command: Some(command), ..self }
    }

    /// Adds words that the searches find as well.
    pub(super) const fn also(self, synonyms: &'static str) -> Self {
        Self { synonyms, ..self }
    }

    /// Returns whether a synonym begins with `word`, which is in lower case.
    pub(super) fn has_synonym(&self, word: &str) -> bool {
        self.synonyms.split_whitespace().any(|synonym| synonym.starts_with(word))
    }

    /// Returns whether the binding is active on every screen.
    pub(super) fn is_global(&self) -> bool {
        Screen::openable().all(|screen| self.focus.contains(&Focus::Screen(screen)))
    }

    /// Returns the display names of the keys, such as `Ctrl-N` or `↑`.
    pub fn labels(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|(modifiers, code)| {
            let held = if modifiers.contains(KeyModifiers::CONTROL) { "Ctrl-" } else { "" };
            match code {
                KeyCode::Char(' ') => format!("{held}Space"),
                KeyCode::Char(letter) if !held.is_empty() => {
                    format!("{held}{}", letter.to_ascii_uppercase())
                }
                KeyCode::Up => format!("{held}↑"),
                KeyCode::Down => format!("{held}↓"),
                KeyCode::Left => format!("{held}←"),
                KeyCode::Right => format!("{held}→"),
                KeyCode::PageDown => format!("{held}PgDn"),
                KeyCode::PageUp => format!("{held}PgUp"),
                KeyCode::BackTab => "Shift-Tab".to_owned(),
                other => format!("{held}{other}"),
            }
        })
    }
}
