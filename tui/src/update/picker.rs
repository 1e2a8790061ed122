//! Chooses among the known values that a field of a form offers.

use tui_input::Input;

use crate::model::form::Form;
use crate::model::picker::{Offers, Picker, offers};
use crate::model::{Action, Data};

/// Chooses or takes a value. Returns whether that is all that the action does.
pub(super) fn act(data: &Data, form: &mut Form, action: Action) -> bool {
    if form.is_submitting {
        return false;
    }
    let Some(offers) = offers(form, data) else { return false };
    match action {
        Action::Pick(steps) => choose(form, &offers, steps),
        Action::Submit => take_chosen(form, &offers),
        Action::Field(1) => {
            let completion = offers.completion().map(str::to_owned);
            match completion {
                _ if take_chosen(form, &offers) => true,
                Some(value) => take(form, &offers, &value),
                None => false,
            }
        }
        Action::Back => form.picker.selected.take().is_some(),
        _ => false,
    }
}

/// Moves the choice. Above the first value is the field itself, and above that the field before.
fn choose(form: &mut Form, offers: &Offers<'_>, steps: isize) -> bool {
    let count = offers.rows.len();
    let place = form.picker.selected.map_or(0, |index| index.min(count) + 1);
    let Some(next) = place.checked_add_signed(steps) else { return false };
    form.picker.selected = next.min(count).checked_sub(1);
    form.picker.is_hidden = false;
    count > 0
}

fn take_chosen(form: &mut Form, offers: &Offers<'_>) -> bool {
    let chosen = form.picker.selected.and_then(|index| offers.rows.get(index));
    chosen.is_some_and(|offer| take(form, offers, &offer.value))
}

fn take(form: &mut Form, offers: &Offers<'_>, value: &str) -> bool {
    let text = offers.taken(value);
    if let Some(field) = form.fields.get_mut(form.current) {
        field.input = Input::new(text);
    }
    form.picker = Picker { is_taken: !offers.known.is_list(), ..Picker::default() };
    true
}
