//! Converts nodes to messages.

use proto::v1;

use super::response::time;
use domain::node::{NodeState, NodeStatus};

pub(in super::super) fn node(node: NodeStatus) -> v1::Node {
    let state = match node.state() {
        NodeState::Serving => v1::NodeState::Serving,
        NodeState::Draining => v1::NodeState::Draining,
        NodeState::Silent => v1::NodeState::Silent,
        NodeState::Stopped => v1::NodeState::Stopped,
    };
    v1::Node {
        name: node.name.to_string(),
        id: node.id.to_string(),
        state: state.into(),
        epoch: node.epoch,
        version: node.version,
        address: node.address,
        started_at: Some(time(node.started_at)),
        heard_at: Some(time(node.heard_at)),
        silent_ms: u64::try_from(node.silence.as_millis()).unwrap_or(u64::MAX),
        in_flight: node.figures.in_flight,
        requests_per_second: node.figures.requests_per_second,
        waiting_records: node.figures.waiting_records,
    }
}
