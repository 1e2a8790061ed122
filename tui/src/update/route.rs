//! The overlay that explains how requests for a model are routed.

use secrecy::SecretString;

use crate::effect::Effect;
use crate::model::command_line::line;
use crate::model::overlay::Overlay;
use crate::model::route::{Route, RouteView};
use crate::model::{Action, Model};

/// The maximum number of lines that it scrolls down.
const MAX_SCROLL: usize = 200;

/// Opens the overlay for the selected model.
pub(super) fn open(model: &mut Model) -> Vec<Effect> {
    let Some(entry) = model.data.models.current() else { return Vec::new() };
    let view = RouteView::new(entry.id.clone());
    let effects = vec![Effect::Explain(view.model.clone())];
    model.overlay = Some(Overlay::Route(view));
    effects
}

/// Handles an action in the overlay.
pub(super) fn act(model: &mut Model, mut view: RouteView, action: Action) -> Vec<Effect> {
    let mut effects = Vec::new();
    match action {
        Action::Back => return Vec::new(),
        Action::Move(lines) => {
            view.scroll = view.scroll.saturating_add_signed(lines).min(MAX_SCROLL);
        }
        Action::Refresh => effects.push(Effect::Explain(view.model.clone())),
        Action::Copy => {
            let command = line(&view.arguments());
            model.set_success(format!("`{command}` was sent to the terminal's clipboard"));
            effects.push(Effect::Copy(SecretString::from(command)));
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Route(view));
    effects
}

/// Shows a route that arrived, if its model is still the one of the overlay.
pub(super) fn show(model: &mut Model, id: &str, route: Result<Route, String>) {
    if let Some(Overlay::Route(view)) = &mut model.overlay
        && view.model == id
    {
        view.route = Some(route);
    }
}
