//! Tries a model: sends the prompt, and follows the answer.

use tui_input::InputRequest;

use crate::effect::Effect;
use crate::model::overlay::{Overlay, Secret};
use crate::model::trial::{Trial, TrialEvent, TrialRequest, TrialState};
use crate::model::{Action, Model};

/// The maximum number of lines that the answer scrolls up, or the record down.
const MAX_SCROLL: usize = 10_000;

/// Opens the trial of the selected model.
pub(super) fn open(model: &mut Model) {
    if let Some(entry) = model.data.models.current() {
        let trial = Trial::new(entry.id.clone(), None);
        model.overlay = Some(Overlay::Trial(Box::new(trial)));
    }
}

/// Opens the trial of a new key with the first model of the catalogue. Its display comes back
/// afterwards.
pub(super) fn open_with_key(model: &mut Model, secret: Secret) {
    match model.data.models.entries.first() {
        Some(entry) => {
            let trial = Trial::new(entry.id.clone(), Some(secret));
            model.overlay = Some(Overlay::Trial(Box::new(trial)));
        }
        None => model.overlay = Some(Overlay::Secret(secret)),
    }
}

/// Handles an action in the overlay.
pub(super) fn act(model: &mut Model, mut trial: Box<Trial>, action: Action) -> Vec<Effect> {
    let is_running = trial.state == TrialState::Running;
    let mut effects = Vec::new();
    match action {
        Action::Back if trial.is_record_open => trial.show_record(false),
        Action::Back => return close(model, *trial),
        Action::OpenRecord => trial.show_record(!trial.is_record_open),
        Action::Submit if !is_running && !trial.prompt.value().trim().is_empty() => {
            model.trials += 1;
            trial.start(model.trials);
            effects.push(Effect::Try(request(model, &trial)));
        }
        Action::Complete if !is_running => trial.api = trial.api.other(),
        Action::NextModel if !is_running => {
            let ids = || model.data.models.entries.iter().map(|it| it.id.as_str());
            let after = ids().skip_while(|id| *id != trial.model).nth(1);
            if let Some(next) = after.or_else(|| ids().next()) {
                next.clone_into(&mut trial.model);
            }
        }
        Action::Move(rows) => {
            let down = if trial.is_record_open { rows } else { -rows };
            trial.scroll = trial.scroll.saturating_add_signed(down).min(MAX_SCROLL);
        }
        Action::Type(request) => edit(&mut trial, request),
        _ => {}
    }
    model.overlay = Some(Overlay::Trial(trial));
    effects
}

/// Applies an event of a request. Those of earlier requests are ignored.
pub(super) fn apply(model: &mut Model, run: u64, event: TrialEvent) {
    if let Some(Overlay::Trial(trial)) = &mut model.overlay
        && trial.run == run
    {
        trial.apply(event);
    }
}

fn edit(trial: &mut Trial, request: InputRequest) {
    if trial.state != TrialState::Running {
        trial.prompt.handle(request);
    }
}

fn request(model: &Model, trial: &Trial) -> TrialRequest {
    TrialRequest {
        run: trial.run,
        base_url: model.base_url.as_str().to_owned(),
        model: trial.model.clone(),
        api: trial.api,
        prompt: trial.prompt.value().trim().to_owned(),
        key: trial.secret.as_ref().map(|secret| secret.text.clone()),
    }
}

/// Stops the request, and shows what was below.
fn close(model: &mut Model, trial: Trial) -> Vec<Effect> {
    // The secret does not come back if it is not shown again.
    model.overlay = trial.secret.map(Overlay::Secret);
    if trial.state == TrialState::Running { vec![Effect::StopTrial] } else { Vec::new() }
}
