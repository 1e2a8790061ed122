//! Nodes: the gateways that share one database, and the rule for the removal of one.
//!
//! A node is one gateway process with its data directory. Each start in that directory takes a
//! greater epoch, which fences the process of an earlier epoch.

use std::time::Duration;

use jiff::Timestamp;

pub use super::id::{NodeId, NodeName};

/// A node, as the database knows it. Durations are measured by the clock of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The id, which the data directory keeps.
    pub id: NodeId,
    /// The name, which no other node has.
    pub name: NodeName,
    /// The number of starts.
    pub epoch: u64,
    /// The version of the gateway.
    pub version: String,
    /// The listen address of its API.
    pub address: String,
    /// The time of its last start.
    pub started_at: Timestamp,
    /// The time of its last heartbeat.
    pub heard_at: Timestamp,
    /// The time since its last heartbeat.
    pub silence: Duration,
    /// The silence after which it refuses requests.
    pub patience: Duration,
    /// Whether an operator drains it.
    pub is_draining: bool,
    /// Whether it stopped cleanly.
    pub is_stopped: bool,
    /// The figures of its last heartbeat.
    pub figures: NodeFigures,
}

/// What a node reports with each heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFigures {
    /// Requests that went upstream and have not ended.
    pub in_flight: u64,
    /// Requests that ended since the last heartbeat, per second.
    pub requests_per_second: u64,
    /// Records that the database does not have yet.
    pub waiting_records: u64,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It serves requests.
    Serving,
    /// It serves requests, and asks load balancers not to send any.
    Draining,
    /// It was not heard of for longer than its patience.
    Silent,
    /// It stopped cleanly.
    Stopped,
}

/// What an operator asserts about a node that is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRemoval {
    /// It stopped cleanly: its journal has no records that the database lacks.
    Stopped,
    /// Its data directory is lost, with the records that the database lacks.
    Lost,
}

/// The reason why a node must not be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemovalRefusal {
    /// It may still serve requests.
    #[error(
        "node `{name}` was heard of {} s ago and may serve requests; stop it, or try again when it \
         was silent for longer than {} s, its `store_patience_seconds`",
        silence.as_secs(), patience.as_secs()
    )]
    Heard {
        /// The node.
        name: NodeName,
        /// The time since its last heartbeat.
        silence: Duration,
        /// The silence after which it refuses requests.
        patience: Duration,
    },
    /// Its journal may have records that the database lacks.
    #[error(
        "node `{name}` did not stop cleanly, and its data directory may have records that the \
         database lacks; start it there once more and stop it, or remove it with `--lost` if the \
         directory is lost"
    )]
    NotStopped {
        /// The node.
        name: NodeName,
    },
}

impl NodeStatus {
    /// Returns the state.
    pub fn state(&self) -> NodeState {
        if self.is_stopped {
            NodeState::Stopped
        } else if self.silence > self.patience {
            NodeState::Silent
        } else if self.is_draining {
            NodeState::Draining
        } else {
            NodeState::Serving
        }
    }

    /// Decides whether the node may be removed.
    ///
    /// # Errors
    /// [`RemovalRefusal`] if it may still serve requests, or if its records may be lost and
    /// `removal` does not say so.
    pub fn check_removal(&self, removal: NodeRemoval) -> Result<(), RemovalRefusal> {
        let name = self.name.clone();
        match (self.state(), removal) {
            (NodeState::Stopped, _) | (NodeState::Silent, NodeRemoval::Lost) => Ok(()),
            (NodeState::Silent, NodeRemoval::Stopped) => Err(RemovalRefusal::NotStopped { name }),
            (NodeState::Serving | NodeState::Draining, _) => {
                Err(RemovalRefusal::Heard { name, silence: self.silence, patience: self.patience })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn node(silence: u64, is_stopped: bool) -> NodeStatus {
        NodeStatus {
            id: NodeId(Uuid::nil()),
            name: NodeName::new("a"),
            epoch: 1,
            version: String::new(),
            address: String::new(),
            started_at: Timestamp::UNIX_EPOCH,
            heard_at: Timestamp::UNIX_EPOCH,
            silence: Duration::from_secs(silence),
            patience: Duration::from_mins(1),
            is_draining: false,
            is_stopped,
            figures: NodeFigures::default(),
        }
    }

    #[test]
    fn only_nodes_that_cannot_serve_are_removed() {
        let heard = RemovalRefusal::Heard {
            name: NodeName::new("a"),
            silence: Duration::from_mins(1),
            patience: Duration::from_mins(1),
        };
        let not_stopped = RemovalRefusal::NotStopped { name: NodeName::new("a") };
        for (node, removal, expected) in [
            (node(60, false), NodeRemoval::Stopped, Err(heard.clone())),
            (node(60, false), NodeRemoval::Lost, Err(heard)),
            (node(61, false), NodeRemoval::Stopped, Err(not_stopped)),
            (node(61, false), NodeRemoval::Lost, Ok(())),
            (node(0, true), NodeRemoval::Stopped, Ok(())),
            (node(0, true), NodeRemoval::Lost, Ok(())),
        ] {
            assert_eq!(node.check_removal(removal), expected, "{node:?}");
        }
    }
}
