//! From keys to actions: dispatch, help, footer hints and the palette's commands all derive from the
//! one [`table`].

pub mod table;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tui_input::InputRequest;

use crate::message::Message;
use crate::model::Screen;

use self::table::TABLE;

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

/// What a key can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leaves the program.
    Quit,
    /// Gives the terminal back to the shell until the program is continued.
    Suspend,
    /// Ends the session.
    SignOut,
    /// Opens the help.
    Help,
    /// Opens the palette.
    Palette,
    /// Closes what is on top: a box, the detail, the filter.
    Back,
    /// Opens a screen.
    Open(Screen),
    /// Opens the screen so many tabs further.
    Tab(isize),
    /// Fetches everything anew, or connects without waiting.
    Refresh,
    /// Listens to the mouse, or leaves it to the terminal.
    Mouse,
    /// Asks for another password.
    Password,
    /// Moves the cursor by so many rows; negative is up.
    Move(isize),
    /// Moves it by so many pages.
    Page(isize),
    /// Moves the cursor to the first row.
    First,
    /// Moves the cursor to the last row.
    Last,
    /// Puts the cursor on that row.
    Select(usize),
    /// Shows the row in full, or no longer.
    Detail,
    /// Opens the filter.
    Filter,
    /// Lets the log stand still, or go on.
    Pause,
    /// Takes a range that is so many steps longer.
    Range(isize),
    /// Makes a new one.
    New,
    /// Changes the one under the cursor.
    Modify,
    /// Replaces the key under the cursor.
    Rotate,
    /// Removes the one under the cursor.
    Remove,
    /// Adds to the balance of the account under the cursor.
    Credit,
    /// Suspends the account under the cursor, or brings it back.
    Standing,
    /// Puts the account under the cursor on another plan.
    SetPlan,
    /// Copies what one needs of the row.
    Copy,
    /// Copies what a coding agent needs of it.
    CopyAgent,
    /// Goes so many fields further.
    Field(isize),
    /// Shows the form to register instead of the one to sign in, or the other way.
    OtherForm,
    /// Sends the form, takes the filter, runs the command.
    Submit,
    /// Writes the chosen command out.
    Complete,
    /// Confirms.
    Yes,
    /// Changes the text of the field.
    Type(InputRequest),
}

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

/// Returns the rows that hold where `focus` is.
pub fn bindings(focus: Focus) -> impl Iterator<Item = &'static Binding> {
    TABLE.iter().filter(move |binding| binding.focus.contains(&focus))
}

/// Returns what a terminal event means where `focus` is, if anything.
pub fn message(focus: Focus, event: &Event) -> Option<Message> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            action(focus, *key).map(Message::Act)
        }
        Event::Resize(columns, rows) => Some(Message::Resized(*columns, *rows)),
        Event::Paste(text) if focus.takes_text() => Some(Message::Pasted(text.as_str().into())),
        _ => None,
    }
}

fn action(focus: Focus, key: KeyEvent) -> Option<Action> {
    // Terminals differ in whether they report shift with a capital letter or a back tab.
    let pressed = (key.modifiers - KeyModifiers::SHIFT, key.code);
    let bound = bindings(focus).find(|binding| binding.keys.contains(&pressed));
    match (bound, pressed) {
        (Some(binding), _) => Some(binding.action),
        (None, (KeyModifiers::NONE, KeyCode::Char(typed))) if focus.takes_text() => {
            Some(Action::Type(InputRequest::InsertChar(typed)))
        }
        _ => None,
    }
}

// === impl Focus ===

impl Focus {
    /// Says whether keys that mean nothing else are text there.
    pub fn takes_text(self) -> bool {
        matches!(self, Self::Screen(Screen::SignIn) | Self::Form | Self::Filter | Self::Palette)
    }
}

// === impl Binding ===

impl Binding {
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

#[cfg(test)]
mod tests;
