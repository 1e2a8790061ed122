//! Nodes: the gateways that share the database. Operators only.

use std::sync::Arc;

use super::access::Permission;
use super::change::ReplayExt;
use super::{Caller, Control, ControlError};
use domain::audit::AuditAction;
use domain::node::{NodeName, NodeRemoval, NodeState, NodeStatus};
use store::StoreError;

impl Control {
    /// Lists the nodes by name.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub async fn list_nodes(&self, caller: &Caller) -> Result<Vec<NodeStatus>, ControlError> {
        caller.require(Permission::ReadAll)?;
        Ok(self.store.nodes().await?)
    }

    /// Sets whether a node drains.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist.
    pub async fn drain_node(
        self: &Arc<Self>,
        caller: &Caller,
        name: NodeName,
        is_draining: bool,
    ) -> Result<NodeStatus, ControlError> {
        caller.require(Permission::ManageNodes)?;
        let drained = name.clone();
        self.write(Some(caller), move |control| async move {
            control.find_node(&drained).await?;
            let details = if is_draining { "drains" } else { "serves" };
            let audit =
                control.audit_entry(AuditAction::NodeDrain, drained.as_str(), None, details);
            Ok(control.store.set_draining(&drained, is_draining, &audit).await?)
        })
        .await
        .or_replay(|_| Ok(()))?;
        self.find_node(&name).await
    }

    /// Removes a node, so that its data directory cannot be used again.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::InUse`] if it may serve requests, or if its records may be lost and
    /// `removal` does not say so.
    pub async fn remove_node(
        self: &Arc<Self>,
        caller: &Caller,
        name: NodeName,
        removal: NodeRemoval,
    ) -> Result<(), ControlError> {
        caller.require(Permission::ManageNodes)?;
        self.write(Some(caller), move |control| async move {
            let node = control.find_node(&name).await?;
            let details = removal_details(&node);
            let audit = control.audit_entry(AuditAction::NodeRemove, name.as_str(), None, details);
            let removed = control.store.remove_node(&name, removal, &audit).await;
            removed.map_err(|error| match error {
                StoreError::Conflict(text) => ControlError::InUse(text),
                error => error.into(),
            })
        })
        .await
        .or_replay(|_| Ok(()))
    }

    async fn find_node(&self, name: &NodeName) -> Result<NodeStatus, ControlError> {
        let nodes = self.store.nodes().await?;
        let found = nodes.into_iter().find(|node| node.name == *name);
        found.ok_or_else(|| ControlError::missing("node", name.as_str()))
    }
}

/// Returns what the audit log keeps of a removed node. A node that did not stop may have known the
/// ends of requests that no other gateway will know.
fn removal_details(node: &NodeStatus) -> String {
    let NodeStatus { id, epoch, figures, .. } = node;
    if node.state() == NodeState::Stopped {
        return format!("id {id}, epoch {epoch}, stopped");
    }
    format!(
        "id {id}, epoch {epoch}, lost: at its last heartbeat, {} requests were in flight and {} \
         records were not stored; their ends are unknown",
        figures.in_flight, figures.waiting_records
    )
}
