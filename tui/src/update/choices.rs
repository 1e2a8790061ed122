//! Actions in choices from a list: columns, values to copy, and themes.

use secrecy::SecretString;

use crate::effect::Effect;
use crate::model::choices::{ColumnChoice, ThemeChoice, ValueChoice, moved};
use crate::model::overlay::Overlay;
use crate::model::{Action, Model};

use super::list;

/// Opens the choice of columns.
pub(super) fn open_columns(model: &mut Model) {
    if let Some(rows) = list::rows(model) {
        let titles = rows.columns();
        model.overlay = Some(Overlay::Columns(ColumnChoice { titles, selected: 0 }));
    }
}

/// Opens the choice of a value of the selected row.
pub(super) fn open_values(model: &mut Model) {
    if let Some(rows) = list::rows(model) {
        let values = rows.values();
        if !values.is_empty() {
            model.overlay = Some(Overlay::Values(ValueChoice { values, selected: 0 }));
        }
    }
}

/// Opens the choice of a theme.
pub(super) fn open_themes(model: &mut Model) {
    let before = model.themes.iter().position(|it| it.theme == model.theme);
    let choice = ThemeChoice { selected: before.unwrap_or(0), before };
    model.overlay = Some(Overlay::Themes(choice));
}

/// Hides, shows or moves columns. Each change applies at once.
pub(super) fn columns(model: &mut Model, mut choice: ColumnChoice, action: Action) -> Vec<Effect> {
    match action {
        Action::Back | Action::Submit => return Vec::new(),
        Action::Move(steps) => choice.selected = moved(choice.selected, steps, choice.titles.len()),
        Action::Shift(steps) => {
            choice.shift(steps);
            if let Some(table) = list::table(model) {
                table.order = choice.titles.iter().skip(1).copied().collect();
            }
        }
        Action::Mark => {
            let title = choice.titles.get(choice.selected).filter(|_| choice.selected > 0);
            if let Some((table, title)) = list::table(model).zip(title)
                && !table.hidden.remove(title)
            {
                table.hidden.insert(title);
            }
        }
        Action::Reset => {
            if let Some(table) = list::table(model) {
                table.hidden.clear();
                table.order.clear();
            }
            open_columns(model);
            return Vec::new();
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Columns(choice));
    Vec::new()
}

/// Copies the selected value.
pub(super) fn values(model: &mut Model, mut choice: ValueChoice, action: Action) -> Vec<Effect> {
    match action {
        Action::Back => return Vec::new(),
        Action::Submit | Action::Copy => {
            let Some((title, value)) = choice.values.into_iter().nth(choice.selected) else {
                return Vec::new();
            };
            model.set_success(format!("the {title} was sent to the terminal's clipboard"));
            return vec![Effect::Copy(SecretString::from(value))];
        }
        Action::Move(steps) => choice.selected = moved(choice.selected, steps, choice.values.len()),
        _ => {}
    }
    model.overlay = Some(Overlay::Values(choice));
    Vec::new()
}

/// Shows the selected theme, and keeps it or restores the one before.
pub(super) fn themes(model: &mut Model, mut choice: ThemeChoice, action: Action) -> Vec<Effect> {
    match action {
        Action::Submit => {
            let name = model.themes.get(choice.selected).map(|it| it.name.clone());
            model.chosen_theme = name;
            return Vec::new();
        }
        Action::Back => {
            if let Some(before) = choice.before.and_then(|index| model.themes.get(index)) {
                model.theme = before.theme;
            }
            return Vec::new();
        }
        Action::Move(steps) => {
            choice.selected = moved(choice.selected, steps, model.themes.len());
            if let Some(shown) = model.themes.get(choice.selected) {
                model.theme = shown.theme;
            }
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Themes(choice));
    Vec::new()
}
