//! From what the terminal reports to messages: keys by the key map, the mouse by what is under it.

use crossterm::event::{Event, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use crate::keymap;
use crate::message::Message;
use crate::model::{Action, Model};
use crate::view;

/// How many rows a notch of the wheel is.
const WHEEL_ROWS: isize = 3;

/// Returns what `event` means, if anything.
pub fn message(model: &Model, event: &Event) -> Option<Message> {
    match event {
        Event::Mouse(mouse) => mouse_action(model, *mouse).map(Message::Act),
        event => keymap::message(model.focus(), event),
    }
}

fn mouse_action(model: &Model, mouse: MouseEvent) -> Option<Action> {
    let action = match mouse.kind {
        MouseEventKind::ScrollDown => Action::Move(WHEEL_ROWS),
        MouseEventKind::ScrollUp => Action::Move(-WHEEL_ROWS),
        MouseEventKind::Down(MouseButton::Left) => {
            let area = Rect::new(0, 0, model.size.0, model.size.1);
            return view::hit_test(model, area, Position::new(mouse.column, mouse.row));
        }
        _ => return None,
    };
    // only where keys could do the same
    keymap::bindings(model.focus())
        .any(|row| matches!(row.action, Action::Move(_)))
        .then_some(action)
}
