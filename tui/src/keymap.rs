//! The one table from keys to actions: dispatch, help and footer hints all derive from it.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tui_input::InputRequest;

use crate::message::Message;

/// Who gets the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The sign-in form: most keys are text.
    SignIn,
    /// The overview.
    Overview,
    /// The help that lies over a screen.
    Help,
}

/// What a key can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leaves the program.
    Quit,
    /// Opens or closes the help.
    ToggleHelp,
    /// Fetches everything anew, or connects without waiting.
    Refresh,
    /// Moves the cursor by so many rows; negative is up.
    Move(isize),
    /// Moves the cursor to the first row.
    First,
    /// Moves the cursor to the last row.
    Last,
    /// Goes to the other field.
    NextField,
    /// Sends the form.
    Submit,
    /// Changes the text of the field.
    Edit(InputRequest),
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
}

use self::Action::{Edit, First, Last, Move, NextField, Quit, Refresh, Submit, ToggleHelp};
use self::Focus::{Help, Overview, SignIn};
use self::KeyCode::{
    BackTab, Backspace, Char, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp,
    Right, Tab, Up,
};
use InputRequest::{
    DeleteFromStart, DeleteNextChar, DeletePrevChar, DeletePrevWord, GoToEnd, GoToNextChar,
    GoToPrevChar, GoToStart,
};

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;

/// The table. For each focus, a key stands in one row only; the help keeps this order.
#[rustfmt::skip]
pub const TABLE: &[Binding] = &[
    row(&[SignIn], &[(NONE, Enter)], Submit, "next field, then sign in", Some("sign in")),
    row(&[SignIn], &[(NONE, Tab), (NONE, BackTab), (NONE, Down), (NONE, Up)], NextField, "other field", Some("field")),
    row(&[SignIn], &[(NONE, Backspace), (CTRL, Char('h'))], Edit(DeletePrevChar), "delete before the cursor", None),
    row(&[SignIn], &[(NONE, Delete)], Edit(DeleteNextChar), "delete under the cursor", None),
    row(&[SignIn], &[(CTRL, Char('w'))], Edit(DeletePrevWord), "delete the word", None),
    row(&[SignIn], &[(CTRL, Char('u'))], Edit(DeleteFromStart), "delete to the start", None),
    row(&[SignIn], &[(NONE, Left)], Edit(GoToPrevChar), "left", None),
    row(&[SignIn], &[(NONE, Right)], Edit(GoToNextChar), "right", None),
    row(&[SignIn], &[(NONE, Home), (CTRL, Char('a'))], Edit(GoToStart), "start of the field", None),
    row(&[SignIn], &[(NONE, End), (CTRL, Char('e'))], Edit(GoToEnd), "end of the field", None),
    row(&[Overview], &[(NONE, Down), (NONE, Char('j'))], Move(1), "older request", Some("scroll")),
    row(&[Overview], &[(NONE, Up), (NONE, Char('k'))], Move(-1), "newer request", None),
    row(&[Overview], &[(NONE, PageDown), (CTRL, Char('f'))], Move(10), "ten requests down", None),
    row(&[Overview], &[(NONE, PageUp), (CTRL, Char('b'))], Move(-10), "ten requests up", None),
    row(&[Overview], &[(NONE, Home), (NONE, Char('g'))], First, "newest request", None),
    row(&[Overview], &[(NONE, End), (NONE, Char('G'))], Last, "oldest request", None),
    row(&[Overview], &[(NONE, Char('r'))], Refresh, "refresh, or reconnect now", Some("refresh")),
    row(&[Help], &[(NONE, Esc), (NONE, Char('?')), (NONE, F(1)), (NONE, Enter)], ToggleHelp, "close the help", Some("close")),
    row(&[Overview], &[(NONE, Char('?')), (NONE, F(1))], ToggleHelp, "help", Some("help")),
    row(&[SignIn], &[(NONE, F(1))], ToggleHelp, "help", Some("help")),
    row(&[Overview, Help], &[(NONE, Char('q')), (CTRL, Char('c'))], Quit, "leave", Some("leave")),
    row(&[SignIn], &[(CTRL, Char('c')), (NONE, Esc)], Quit, "leave", Some("leave")),
];

const fn row(
    focus: &'static [Focus],
    keys: &'static [(KeyModifiers, KeyCode)],
    action: Action,
    help: &'static str,
    hint: Option<&'static str>,
) -> Binding {
    Binding { focus, keys, action, help, hint }
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
        Event::Resize(..) => Some(Message::Resized),
        _ => None,
    }
}

fn action(focus: Focus, key: KeyEvent) -> Option<Action> {
    // Terminals differ in whether they report shift with a capital letter or a back tab.
    let pressed = (key.modifiers - KeyModifiers::SHIFT, key.code);
    let bound = bindings(focus).find(|binding| binding.keys.contains(&pressed));
    match (bound, pressed) {
        (Some(binding), _) => Some(binding.action),
        (None, (NONE, Char(typed))) if focus == SignIn => {
            Some(Edit(InputRequest::InsertChar(typed)))
        }
        _ => None,
    }
}

// === impl Binding ===

impl Binding {
    /// Returns the keys as people write them.
    pub fn labels(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|(modifiers, code)| match code {
            Char(letter) if *modifiers == CTRL => format!("Ctrl-{}", letter.to_ascii_uppercase()),
            Up => "↑".to_owned(),
            Down => "↓".to_owned(),
            Left => "←".to_owned(),
            Right => "→".to_owned(),
            PageDown => "PgDn".to_owned(),
            PageUp => "PgUp".to_owned(),
            BackTab => "Shift-Tab".to_owned(),
            other => other.to_string(),
        })
    }
}
