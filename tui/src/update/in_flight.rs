//! Actions on the requests in flight.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::overlay::{Confirm, Overlay};
use crate::model::{Action, Model};

use super::list;

/// Cancels the selected request.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let current = model.data.in_flight.current().cloned();
    let (Action::Remove, Some(request)) = (action, current) else {
        return list::copy_id(model, action);
    };
    model.overlay = Some(Overlay::Confirm(Confirm {
        question: format!("Cancel the request of `{}` to `{}`?", request.account, request.model),
        consequence: "The client gets an error. What was received until then is charged.".into(),
        change: Change::CancelRequest { id: request.id },
    }));
    Vec::new()
}
