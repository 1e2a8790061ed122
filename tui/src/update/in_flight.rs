//! Actions on the requests in flight.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::in_flight::InFlight;
use crate::model::overlay::{Confirm, Overlay};
use crate::model::{Action, Model};

use super::list;

/// Cancels the selected request.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let current = model.data.in_flight.current().cloned();
    let (Action::Remove, Some(request)) = (action, current) else {
        return list::copy_id(model, action);
    };
    if std::mem::take(&mut model.data.in_flight.is_displaced) {
        model
            .set_problem("the selected request has ended: x again asks about the one now selected");
        return Vec::new();
    }
    let InFlight { id, account, model: name, age_ms, .. } = &request;
    let seconds = age_ms / 1_000.0;
    model.overlay = Some(Overlay::Confirm(Confirm {
        question: format!("Cancel the request of `{account}` to `{name}`?"),
        consequence: format!(
            "Its id is `{id}`, its age {seconds:.0} s. The client gets an error. Its input, if it was \
             sent, and what was received until then are charged."
        ),
        change: Change::CancelRequest { id: request.id },
    }));
    Vec::new()
}
