//! What the user can do on the overview.

use crate::effect::Effect;
use crate::keymap::Action;
use crate::model::overview::Overview;

/// Moves the cursor, or asks for fresh data.
pub(super) fn act(overview: &mut Overview, action: Action) -> Vec<Effect> {
    let log = &mut overview.log;
    match action {
        Action::Move(rows) => log.select(log.selected.saturating_add_signed(rows)),
        Action::First => log.select(0),
        Action::Last => log.select(usize::MAX),
        Action::Refresh => {
            overview.refreshing = true;
            return vec![Effect::Refresh];
        }
        _ => {}
    }
    Vec::new()
}
