//! Converts terminal events to messages: keys by the key map, mouse events by the element under the
//! pointer.

use crossterm::event::{Event, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use crate::keymap;
use crate::message::Message;
use crate::model::{Action, Model};
use crate::view;

/// The number of rows that one wheel step scrolls.
const WHEEL_ROWS: isize = 3;

/// Returns the message for `event`, or `None` if it has no meaning in the current focus.
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
    // The wheel scrolls only where keys can move the cursor.
    keymap::bindings(model.focus())
        .any(|row| matches!(row.action, Action::Move(_)))
        .then_some(action)
}
