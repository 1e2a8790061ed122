//! `ctl node …`, and the printed form of nodes.

use proto::v1::node_service_client::NodeServiceClient;
use proto::v1::{DrainNodeRequest, ListNodesRequest, Node, RemoveNodeRequest};
use serde::Serialize;

use super::{enum_name, require_listed, required, rfc3339};
use crate::Shell;
use crate::cli::node::{Drain, NodeCommand, Remove};
use crate::error::Failure;
use crate::output::Record;

/// A node, as printed.
#[derive(Serialize)]
struct NodeRecord {
    name: String,
    id: String,
    state: Option<String>,
    epoch: u64,
    version: String,
    address: String,
    started_at: Option<String>,
    heard_at: Option<String>,
    silent_ms: u64,
    in_flight: u64,
    requests_per_second: u64,
    waiting_records: u64,
}

/// Runs `ctl node …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: NodeCommand) -> Result<(), Failure> {
    match command {
        NodeCommand::List => list(shell).await,
        NodeCommand::Drain(input) => drain(shell, input).await,
        NodeCommand::Remove(input) => remove(shell, input).await,
    }
}

async fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = NodeServiceClient::new(shell.connect().await?);
    let answer = client.list_nodes(ListNodesRequest {}).await?.into_inner();
    let nodes: Vec<_> = answer.nodes.into_iter().map(NodeRecord::from).collect();
    shell.output.many(&nodes)
}

async fn drain(shell: &mut Shell<'_>, Drain { name, undo }: Drain) -> Result<(), Failure> {
    let mut client = NodeServiceClient::new(shell.connect().await?);
    let answer = client.drain_node(DrainNodeRequest { name, draining: !undo }).await?.into_inner();
    shell.output.one(&NodeRecord::from(required(answer.node, "node")?))
}

async fn remove(shell: &mut Shell<'_>, Remove { name, lost }: Remove) -> Result<(), Failure> {
    let mut client = NodeServiceClient::new(shell.connect().await?);
    if shell.should_confirm() {
        let listed = client.list_nodes(ListNodesRequest {}).await?.into_inner().nodes;
        let found = listed.into_iter().find(|node| node.name == name);
        let Node { address, .. } = require_listed(found, "node", &name)?;
        shell.confirm(&format!(
            "Remove node {name} ({address})? Its data directory cannot be used again."
        ))?;
    }
    client.remove_node(RemoveNodeRequest { name: name.clone(), lost }).await?;
    shell.output.note(&format!("removed node {name}"));
    Ok(())
}

// === impl NodeRecord ===

impl From<Node> for NodeRecord {
    fn from(node: Node) -> Self {
        Self {
            state: enum_name(node.state().as_str_name(), "NODE_STATE_"),
            name: node.name,
            id: node.id,
            epoch: node.epoch,
            version: node.version,
            address: node.address,
            started_at: rfc3339(node.started_at),
            heard_at: rfc3339(node.heard_at),
            silent_ms: node.silent_ms,
            in_flight: node.in_flight,
            requests_per_second: node.requests_per_second,
            waiting_records: node.waiting_records,
        }
    }
}

impl Record for NodeRecord {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "id",
        "state",
        "epoch",
        "version",
        "address",
        "started_at",
        "heard_at",
        "silent_ms",
        "in_flight",
        "requests_per_second",
        "waiting_records",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "state",
        "version",
        "address",
        "started_at",
        "silent_ms",
        "requests_per_second",
        "in_flight",
        "waiting_records",
    ];
    const NARROW_COLUMNS: &'static [&'static str] =
        &["name", "state", "silent_ms", "requests_per_second", "in_flight", "waiting_records"];
}
