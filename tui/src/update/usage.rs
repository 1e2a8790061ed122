//! Actions on the usage screen.

use crate::effect::Effect;
use crate::model::{Action, Model};

use super::{jump, list};

/// Selects the time range, pauses the log, or copies a request id.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    match action {
        Action::Pause => {
            let log = &mut model.data.log;
            log.set_paused(!log.paused);
        }
        Action::Jump => jump::open(model),
        Action::Range(steps) => {
            let usage = &mut model.data.usage;
            let range = usage.range.step(steps);
            if range != usage.range {
                usage.range = range;
                usage.clear();
            }
        }
        action => return list::copy_id(model, action),
    }
    Vec::new()
}
