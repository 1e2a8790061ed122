//! The hint that leads a new user from an empty account to the first request in the log.

use super::fetched::FetchState;
use super::{Model, Screen};

/// The minimum number of rows of a terminal that shows the hint.
const MIN_ROWS: u16 = 20;

/// Whether the hint is shown. Once it is done, it does not come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstSteps {
    /// Not shown: the user has made a request or dismissed the hint.
    #[default]
    Done,
    /// Not shown yet: it is not known whether there was a request.
    Pending,
    /// Shown: there was no request at the start.
    Shown,
}

/// A step of a new user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create a key.
    MakeKey,
    /// Try a model.
    TryModel,
    /// Look at the request in the log.
    SeeLog,
}

/// Returns the step that the hint describes, if the hint is shown.
pub fn step(model: &Model) -> Option<Step> {
    if model.first_steps != FirstSteps::Shown
        || model.screen == Screen::SignIn
        || model.is_read_only
        || model.size.1 < MIN_ROWS
    {
        return None;
    }
    let keys = &model.data.keys.entries;
    Some(if has_request(model) {
        Step::SeeLog
    } else if keys.iter().all(|key| key.revoked_at.is_some()) {
        Step::MakeKey
    } else {
        Step::TryModel
    })
}

/// Returns the state after the model has changed.
pub fn next(model: &Model) -> FirstSteps {
    let data = &model.data;
    let is_known = data.log.fetch == FetchState::Ready
        && data.keys.fetch == FetchState::Ready
        && data.usage.filter.is_empty();
    match model.first_steps {
        FirstSteps::Pending if has_request(model) => FirstSteps::Done,
        FirstSteps::Pending if is_known => FirstSteps::Shown,
        FirstSteps::Shown if has_request(model) && model.screen == Screen::Usage => {
            FirstSteps::Done
        }
        unchanged => unchanged,
    }
}

fn has_request(model: &Model) -> bool {
    !model.data.log.records.is_empty()
}
