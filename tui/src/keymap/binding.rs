//! A row of the key map.

use crossterm::event::{KeyCode, KeyModifiers};

use crate::model::{Action, Focus};

/// A row of the table.
#[derive(Debug)]
pub struct Binding {
    /// Where it holds.
    pub focus: &'static [Focus],
    /// The keys, each of which does it.
    pub keys: &'static [(KeyModifiers, KeyCode)],
    /// What it does.
    pub action: Action,
    /// What the help says.
    pub help: &'static str,
    /// What the footer says, if it is worth a place there.
    pub hint: Option<&'static str>,
    /// The command of the palette that does the same, if there is one.
    pub command: Option<&'static str>,
}

/// Returns a row without hint and command.
pub(super) const fn row(
    focus: &'static [Focus],
    keys: &'static [(KeyModifiers, KeyCode)],
    action: Action,
    help: &'static str,
) -> Binding {
    Binding { focus, keys, action, help, hint: None, command: None }
}

// === impl Binding ===

impl Binding {
    /// Gives it a place in the footer.
    pub(super) const fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Gives it a command in the palette.
    pub(super) const fn command(self, command: &'static str) -> Self {
        Self { command: Some(command), ..self }
    }

    /// Returns the keys as people write them.
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
