//! Tries a model: sends the prompt, and follows the answer.

use tui_input::InputRequest;

use crate::effect::Effect;
use crate::model::catalogue::CatalogueModel;
use crate::model::overlay::{Overlay, Secret};
use crate::model::trial::{Trial, TrialEvent, TrialRequest, TrialState, next_model, offered};
use crate::model::upstreams::{HealthStatus, Upstream};
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

/// Opens the trial of a new key, with the one of its models that is most likely to answer. Its
/// display comes back afterwards.
pub(super) fn open_with_key(model: &mut Model, secret: Secret) {
    let upstreams = &model.data.upstreams.entries;
    let best = offered(model, Some(&secret)).min_by_key(|entry| doubt(entry, upstreams));
    let overlay = if let Some(id) = best.map(|entry| entry.id.clone()) {
        Overlay::Trial(Box::new(Trial::new(id, Some(secret))))
    } else {
        model.set_problem("the catalogue has no model that this key may use");
        Overlay::Secret(secret)
    };
    model.overlay = Some(overlay);
}

/// Orders models by how likely they are to answer, the most likely first. The built-in simulator
/// always answers; an upstream without recent requests may have no server.
fn doubt(entry: &CatalogueModel, upstreams: &[Upstream]) -> u8 {
    match entry.health_status(upstreams) {
        Some(HealthStatus::Healthy) => 0,
        _ if entry.is_simulated(upstreams) => 1,
        Some(
            HealthStatus::Idle
            | HealthStatus::Waiting
            | HealthStatus::Shaky
            | HealthStatus::Probing,
        ) => 2,
        None => 3,
        Some(HealthStatus::Down | HealthStatus::NoKey) => 4,
    }
}

/// Handles an action in the overlay.
pub(super) fn act(model: &mut Model, mut trial: Box<Trial>, action: Action) -> Vec<Effect> {
    let is_running = trial.state == TrialState::Running;
    let mut effects = Vec::new();
    match action {
        Action::Back if trial.is_record_open => trial.show_record(false),
        Action::Back => return close(model, *trial),
        Action::OpenRecord => match trial.missing_record() {
            Some(reason) => model.set_problem(reason),
            None => trial.show_record(!trial.is_record_open),
        },
        Action::Submit if !is_running && !trial.prompt.value().trim().is_empty() => {
            model.trials += 1;
            trial.start(model.trials);
            effects.push(Effect::Try(request(model, &trial)));
        }
        Action::Complete if !is_running => {
            trial.api = trial.api.other();
            trial.reset();
        }
        Action::NextModel if !is_running => match next_model(model, &trial).map(str::to_owned) {
            Some(next) => {
                trial.model = next;
                trial.reset();
            }
            None => model.set_problem("there is no other model to try"),
        },
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
