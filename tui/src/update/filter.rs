//! Actions in the filter input: typing, completion, and the filters typed before.

use tui_input::Input;

use crate::effect::Effect;
use crate::model::filter::{FilterInput, LogFilter, completions, translate, with_last_word};
use crate::model::keys::without_secrets;
use crate::model::overlay::Overlay;
use crate::model::{Action, Model, Screen};

use super::list;

/// Edits, applies or cancels the filter.
pub(super) fn act(model: &mut Model, mut filter: FilterInput, action: Action) -> Vec<Effect> {
    match action {
        Action::Submit => {
            let text = filter.input.value().trim().to_owned();
            model.filters.entry(model.screen.name()).or_default().remember(&text);
            list::set_filter(model, &text);
            return Vec::new();
        }
        Action::Back => {
            list::set_filter(model, &filter.before);
            return Vec::new();
        }
        Action::Complete => complete(model, &mut filter),
        Action::Move(steps) => recall(model, &mut filter, steps),
        Action::SaveFilter => save(model, &filter),
        Action::Type(request) => {
            filter.completion = None;
            filter.recalled = None;
            filter.input.handle(request);
            let shown = without_secrets(filter.input.value());
            if shown != filter.input.value() {
                filter.input = Input::new(shown);
            }
        }
        _ => {}
    }
    // The gateway evaluates the log's filter, so it gets only a complete one.
    if model.screen != Screen::Usage {
        list::set_filter(model, filter.input.value());
    }
    model.overlay = Some(Overlay::Filter(filter));
    Vec::new()
}

/// Replaces the last word by the next one that begins like it.
fn complete(model: &Model, filter: &mut FilterInput) {
    filter.recalled = None;
    let text = filter.completed_text().to_owned();
    let words = completions(&model.data, model.screen, &text);
    let next = filter.completion.as_ref().map_or(0, |(_, index)| index + 1);
    let Some(index) = next.checked_rem(words.len()) else { return };
    filter.input = Input::new(with_last_word(&text, &words[index]));
    // A single word is complete: what follows is another one.
    filter.completion = (words.len() > 1).then_some((text, index));
}

/// Shows a filter that was typed before; after the newest one, the one to edit.
fn recall(model: &Model, filter: &mut FilterInput, steps: isize) {
    filter.completion = None;
    let Some(memory) = model.filters.get(model.screen.name()) else { return };
    let all: Vec<_> = memory.all().collect();
    let place = filter.recalled.map_or(0, |index| index + 1);
    filter.recalled = place.saturating_add_signed(-steps).min(all.len()).checked_sub(1);
    let text = filter.recalled.map_or(filter.before.as_str(), |index| all[index]);
    filter.input = Input::new(text.to_owned());
}

/// Saves the filter, or forgets that it was saved.
fn save(model: &mut Model, filter: &FilterInput) {
    let text = filter.input.value().trim().to_owned();
    if text.is_empty() {
        return;
    }
    let is_saved = model.filters.entry(model.screen.name()).or_default().toggle_saved(&text);
    let now = if is_saved { "is saved: ↑ finds it" } else { "is no longer saved" };
    model.set_success(format!("`{text}` {now}"));
}

/// Translates the filter of the request log again, because it or the names that it uses changed.
/// The log of another filter starts over.
pub(super) fn refresh(model: &mut Model) {
    let filter = translate(&model.data.usage.filter, &model.data);
    let usage = &mut model.data.usage;
    if filter.expression != usage.expression {
        usage.expression.clone_from(&filter.expression);
        usage.clear();
    }
    // The other screens use the log of all requests.
    let filter = if model.screen == Screen::Usage { filter } else { LogFilter::default() };
    if filter != model.data.log.filter {
        model.data.log.restart(filter);
        model.log_run += 1;
    }
}
