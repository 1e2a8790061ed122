//! Actions on the nodes screen.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::nodes::{Node, NodeState};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::{Action, Model};

use super::list;

/// Asks to drain or to remove the selected node.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let Some(node) = model.data.nodes.current().cloned() else { return Vec::new() };
    let question = match action {
        Action::ToggleDraining => draining(node),
        Action::Remove => removal(node),
        action => return list::copy_id(model, action),
    };
    match question {
        Ok(question) => model.overlay = Some(Overlay::Confirm(question)),
        Err(problem) => model.set_problem(problem),
    }
    Vec::new()
}

fn draining(Node { name, state, .. }: Node) -> Result<Confirm, String> {
    match state {
        Some(NodeState::Silent | NodeState::Stopped) => {
            Err(format!("`{name}` does not serve: nothing to drain"))
        }
        Some(NodeState::Draining) => Ok(Confirm {
            question: format!("Let `{name}` get requests again?"),
            consequence: "It reports that it is ready.".into(),
            change: Change::DrainNode { name, is_draining: false },
        }),
        Some(NodeState::Serving) | None => Ok(Confirm {
            question: format!("Drain node `{name}`?"),
            consequence: "It reports that it is not ready, and serves what it still gets.".into(),
            change: Change::DrainNode { name, is_draining: true },
        }),
    }
}

fn removal(Node { name, state, .. }: Node) -> Result<Confirm, String> {
    match state {
        Some(NodeState::Serving | NodeState::Draining) => {
            Err(format!("`{name}` serves requests: stop it first"))
        }
        Some(NodeState::Silent) => Ok(Confirm {
            question: format!("Remove `{name}`, whose data directory is lost?"),
            consequence:
                "Records that only its journal has are lost. If the directory still exists, \
                start the node there instead."
                    .into(),
            change: Change::RemoveNode { name, is_lost: true },
        }),
        Some(NodeState::Stopped) | None => Ok(Confirm {
            question: format!("Remove node `{name}`?"),
            consequence: "Its data directory cannot be used again.".into(),
            change: Change::RemoveNode { name, is_lost: false },
        }),
    }
}
