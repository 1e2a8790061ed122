//! `NodeService`.

use std::sync::Arc;

use proto::v1::{self, node_service_server::NodeService};
use tonic::{Request, Response, async_trait};

use super::{RpcResult, auth, convert};
use crate::control::Control;
use domain::node::{NodeName, NodeRemoval};

pub(super) struct Nodes {
    pub(super) control: Arc<Control>,
}

#[async_trait]
impl NodeService for Nodes {
    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> RpcResult<v1::ListNodesResponse> {
        let caller = auth::caller(&self.control, &request).await?;
        let nodes = self.control.list_nodes(&caller).await?;
        let nodes = nodes.into_iter().map(convert::node).collect();
        Ok(Response::new(v1::ListNodesResponse { nodes }))
    }

    async fn drain_node(
        &self,
        request: Request<v1::DrainNodeRequest>,
    ) -> RpcResult<v1::DrainNodeResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::DrainNodeRequest { name, draining } = request.into_inner();
        let node = self.control.drain_node(&caller, NodeName::new(name), draining).await?;
        Ok(Response::new(v1::DrainNodeResponse { node: Some(convert::node(node)) }))
    }

    async fn remove_node(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> RpcResult<v1::RemoveNodeResponse> {
        let caller = auth::mutating_caller(&self.control, &request).await?;
        let v1::RemoveNodeRequest { name, lost } = request.into_inner();
        let removal = if lost { NodeRemoval::Lost } else { NodeRemoval::Stopped };
        self.control.remove_node(&caller, NodeName::new(name), removal).await?;
        Ok(Response::new(v1::RemoveNodeResponse {}))
    }
}
