//! Nodes: the gateways that share one database.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// A gateway of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The name.
    pub name: String,
    /// The state; `None` if unknown.
    pub state: Option<NodeState>,
    /// The number of its starts.
    pub epoch: u64,
    /// The version of the gateway.
    pub version: String,
    /// The listen address of its API.
    pub address: String,
    /// The time of its last start.
    pub started_at: Option<Timestamp>,
    /// The time since its last heartbeat, in milliseconds.
    pub silent_ms: u64,
    /// The requests in flight at its last heartbeat.
    pub in_flight: u64,
    /// The requests per second that ended before its last heartbeat.
    pub requests_per_second: u64,
    /// The request records that the database did not have at its last heartbeat.
    pub waiting_records: u64,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It serves requests.
    Serving,
    /// It serves requests and reports that it is not ready.
    Draining,
    /// It was not heard of for longer than its patience.
    Silent,
    /// It stopped cleanly.
    Stopped,
}

impl NodeState {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Silent => "silent",
            Self::Stopped => "stopped",
        }
    }
}

impl Tabular for Node {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "state",
        "silent",
        "in flight",
        "per s",
        "waiting",
        "since",
        "version",
        "address",
    ];

    fn value(&self, column: &str) -> Value {
        match column {
            "name" => Value::text(&self.name),
            "state" => Value::optional_text(self.state.map(NodeState::name)),
            "silent" => Value::Count(self.silent_ms),
            "in flight" => Value::Count(self.in_flight),
            "per s" => Value::Count(self.requests_per_second),
            "waiting" => Value::Count(self.waiting_records),
            "since" => Value::time(self.started_at),
            "version" => Value::text(&self.version),
            "address" => Value::text(&self.address),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for Node {
    fn id(&self) -> &str {
        &self.name
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.name, self.state.map_or("", NodeState::name), &self.version, &self.address]
    }
}
