//! The key map: key dispatch, help, footer hints and palette commands all derive from one
//! [`table`].

mod binding;
pub mod help;
pub mod table;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tui_input::InputRequest;

use crate::message::Message;
use crate::model::{Action, Focus, Model};

pub use self::binding::Binding;
use self::table::TABLE;

/// Returns the bindings that are active in `focus`, in table order.
pub fn bindings(focus: Focus) -> impl Iterator<Item = &'static Binding> {
    TABLE.iter().filter(move |binding| binding.focus.contains(&focus))
}

/// Returns the commands of the open screen that `typed` finds: that of this name, then those whose
/// names start with it, then, from two letters on, those whose names contain it, those with this
/// synonym, those whose descriptions contain it, and those of which each word typed begins a synonym.
/// Ignores case and surrounding spaces.
pub fn commands(model: &Model, typed: &str) -> Vec<&'static Binding> {
    let typed = typed.trim().to_lowercase();
    let rank = |name: &str, row: &Binding| match () {
        () if name == typed => Some(0),
        () if name.starts_with(&typed) => Some(1),
        () if typed.chars().count() < 2 => None,
        () if name.contains(&typed) => Some(2),
        () if row.synonyms.split_whitespace().any(|synonym| synonym == typed) => Some(3),
        () if row.help.to_lowercase().contains(&typed) => Some(4),
        () => typed.split_whitespace().all(|word| row.has_synonym(word)).then_some(5),
    };
    let mut found: Vec<_> = bindings(model.focus_below())
        .filter(|row| model.allows(row.action))
        .filter_map(|row| Some((rank(row.command?, row)?, row)))
        .collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, row)| row).collect()
}

/// Returns the message for a terminal event in `focus`, or `None` if the event has no meaning
/// there.
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

#[cfg(test)]
mod tests;
