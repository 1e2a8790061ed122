//! Actions available on every screen.

use crate::effect::Effect;
use crate::model::first_steps::FirstSteps;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::{Help, Overlay, Palette};
use crate::model::{Action, Model, Screen};

use super::{chart, choices, trail};

/// Switches screens and opens overlays. Returns `None` for other actions.
pub(super) fn act(model: &mut Model, action: Action) -> Option<Vec<Effect>> {
    let mut effects = Vec::new();
    match action {
        Action::Help => model.overlay = Some(Overlay::Help(Help::default())),
        Action::Palette => model.overlay = Some(Overlay::Palette(Palette::default())),
        Action::Open(screen) if model.allows(action) => open(model, screen),
        Action::Open(screen) => {
            model.set_problem(format!("`{}` is for operators", screen.name()));
        }
        Action::Tab(steps) => open(model, neighbour(model, steps)),
        Action::Chart => chart::open(model),
        Action::Columns => choices::open_columns(model),
        Action::CopyValue => choices::open_values(model),
        Action::Theme => choices::open_themes(model),
        Action::Refresh => {
            model.is_refreshing = true;
            effects.push(Effect::Refresh);
        }
        Action::Mouse => {
            model.is_mouse_enabled = !model.is_mouse_enabled;
            model.set_success(if model.is_mouse_enabled {
                "the mouse scrolls and clicks; hold Shift to select text"
            } else {
                "the terminal handles the mouse again"
            });
            effects.push(Effect::Mouse(model.is_mouse_enabled));
        }
        Action::HideFirstSteps => model.first_steps = FirstSteps::Done,
        Action::ToggleUtc => {
            model.toggle_utc();
        }
        Action::Password => {
            let fields = vec![
                Field::masked("old password", "the current password").required(),
                Field::masked("new password", "eight characters or more").required(),
                Field::masked("again", "the same once more").required(),
            ];
            let form = Form::new("Change password", FormKind::ChangePassword, fields);
            model.overlay = Some(Overlay::Form(Box::new(form)));
        }
        Action::SignOut => effects.push(Effect::SignOut),
        _ => return None,
    }
    Some(effects)
}

/// Opens a screen.
pub(super) fn open(model: &mut Model, screen: Screen) {
    trail::leave(model);
    if model.screen != screen {
        // The overview shows the same log.
        model.data.log.end_sorting();
        model.screen = screen;
        model.is_detail_open = false;
        model.detail_scroll = 0;
    }
}

fn neighbour(model: &Model, steps: isize) -> Screen {
    let tabs: Vec<_> = model.tabs().collect();
    let now = tabs.iter().position(|it| *it == model.screen).unwrap_or(0);
    tabs[(now + tabs.len()).saturating_add_signed(steps) % tabs.len()]
}
