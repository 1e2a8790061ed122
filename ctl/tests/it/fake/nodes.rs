//! Canned nodes.

use proto::v1::node_service_server::NodeService;
use proto::v1::*;
use tonic::Request;

use super::{Answer, FakeGateway, answer, at};

fn node(name: &str, state: NodeState) -> Node {
    Node {
        name: name.to_owned(),
        id: "019a9f0e-0000-7000-8000-0000000000a1".to_owned(),
        state: state.into(),
        epoch: 3,
        version: "0.1.0".to_owned(),
        address: "10.0.0.7:8080".to_owned(),
        started_at: at(0, 0),
        heard_at: at(3_600, 0),
        silent_ms: 412,
        in_flight: 17,
        requests_per_second: 250,
        waiting_records: 96,
    }
}

#[tonic::async_trait]
impl NodeService for FakeGateway {
    async fn list_nodes(&self, request: Request<ListNodesRequest>) -> Answer<ListNodesResponse> {
        self.record("ListNodes", request)?;
        let nodes = vec![node("gate-1", NodeState::Serving), node("gate-2", NodeState::Silent)];
        answer(ListNodesResponse { nodes })
    }

    async fn drain_node(&self, request: Request<DrainNodeRequest>) -> Answer<DrainNodeResponse> {
        let message = self.record("DrainNode", request)?;
        answer(DrainNodeResponse { node: Some(node(&message.name, NodeState::Draining)) })
    }

    async fn remove_node(&self, request: Request<RemoveNodeRequest>) -> Answer<RemoveNodeResponse> {
        self.record("RemoveNode", request)?;
        answer(RemoveNodeResponse {})
    }
}
