//! Actions in the command palette. What is no command of the open screen is searched in the help.

use tui_input::Input;

use crate::effect::Effect;
use crate::keymap;
use crate::keymap::help::help;
use crate::model::overlay::{Help, Overlay, Palette};
use crate::model::{Action, Model};

/// Edits the input, selects a command or runs it.
pub(super) fn act(model: &mut Model, mut palette: Palette, action: Action) -> Vec<Effect> {
    let found = keymap::commands(model, palette.input.value());
    match action {
        Action::Submit => {
            if let Some(binding) = found.get(palette.selected) {
                return super::act(model, binding.action);
            }
            let typed = palette.input.value().trim().to_owned();
            let elsewhere = Help { input: palette.input, ..Help::default() };
            match help(model, &elsewhere).as_slice() {
                _ if typed.is_empty() => {}
                [] => model.set_problem(format!("there is no command `{typed}`: ? lists all keys")),
                _ => model.overlay = Some(Overlay::Help(elsewhere)),
            }
            return Vec::new();
        }
        Action::Complete => {
            if let Some(name) = found.get(palette.selected).and_then(|binding| binding.command) {
                palette = Palette { input: Input::new(name.to_owned()), selected: 0 };
            }
        }
        Action::Move(steps) => {
            let last = found.len().saturating_sub(1);
            palette.selected = palette.selected.saturating_add_signed(steps).min(last);
        }
        Action::Type(request) => {
            palette.input.handle(request);
            palette.selected = 0;
        }
        Action::Back => return Vec::new(),
        _ => {}
    }
    model.overlay = Some(Overlay::Palette(palette));
    Vec::new()
}
