//! Several gateways on one database: its nodes, and the membership of one of them.
//!
//! A gateway on SQLite is alone. Its store answers the questions of [`Nodes`] with
//! [`StoreError::Unsupported`], has no changes of others, no [`Membership`] and no [`Notifications`].

use std::time::Duration;

use async_trait::async_trait;

use jiff::Timestamp;

use super::{Cursor, StoreError};
use domain::account::Account;
use domain::allocation::Recall;
use domain::audit::AuditEntry;
use domain::change::ChangeSeq;
use domain::key::Key;
use domain::model::Model;
use domain::node::{NodeFigures, NodeId, NodeName, NodeRemoval, NodeStatus};
use domain::person::Person;
use domain::plan::Plan;
use domain::upstream::Upstream;

/// The nodes of the database, as operators see and change them.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Returns all nodes that were not removed, by name.
    async fn nodes(&self) -> Result<Vec<NodeStatus>, StoreError>;
    /// Sets whether a node drains; its next start resets that. [`StoreError::NotFound`] if there is
    /// no such node.
    async fn set_draining(
        &self,
        name: &NodeName,
        is_draining: bool,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Removes a node and fences its process: neither it nor a later start in its data directory
    /// can write. Waits for its transactions in progress. [`StoreError::NotFound`] if there is no
    /// such node; [`StoreError::Conflict`] if [`NodeStatus::check_removal`] refuses.
    async fn remove_node(
        &self,
        name: &NodeName,
        removal: NodeRemoval,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
}

/// The membership of this node.
#[async_trait]
pub trait Membership: Send + Sync {
    /// Records that this node is alive, within `limit`. A failure is not final: the next call uses
    /// another connection.
    async fn heartbeat(
        &self,
        figures: NodeFigures,
        limit: Duration,
    ) -> Result<HeartbeatOutcome, StoreError>;
}

/// The wall clock of the database, which is the same for all gateways.
#[async_trait]
pub trait DatabaseClock: Send + Sync {
    /// Returns the time at some moment of the call.
    async fn time(&self) -> Result<Timestamp, StoreError>;
}

/// Changes of accounts, keys and the catalogue that other gateways committed.
///
/// The store knows which changes its gateway has applied to its directory: those up to
/// [`mark_applied`](Self::mark_applied), and those that it committed itself. A change that is not
/// based on all committed ones fails with [`StoreError::Stale`].
#[async_trait]
pub trait Changes: Send + Sync {
    /// Returns the present state of all objects with changes that were not applied, or of all
    /// objects if such changes were deleted, or may have been lost by a failover.
    async fn unapplied_changes(&self) -> Result<UnappliedChanges, StoreError>;
    /// Records that the directory has all changes up to `newest`.
    fn mark_applied(&self, newest: ChangeSeq);
    /// Deletes up to `limit` of the oldest changes, but none of the newest `kept`. A gateway that
    /// lacks deleted ones gets all objects as unapplied. Returns the number of deleted changes; zero
    /// while another gateway deletes old rows.
    async fn delete_old_changes(&self, kept: u32, limit: usize) -> Result<u64, StoreError>;
}

/// The key with which gateways encrypt secrets in the database.
#[async_trait]
pub trait SealKeys: Send + Sync {
    /// Returns the fingerprint of the key that all gateways must have; `None` before the first
    /// start, and if the database belongs to one data directory.
    async fn seal_fingerprint(&self) -> Result<Option<String>, StoreError>;
    /// Stores the fingerprint of the key unless there is one. Returns the stored one.
    async fn claim_seal_fingerprint(&self, fingerprint: &str) -> Result<String, StoreError>;
    /// Replaces the fingerprint `former` by `new`; does nothing if it was replaced before, or if the database belongs
    /// to one data directory. [`StoreError::Conflict`] if there are other gateways, which have only the former key, or
    /// if the stored fingerprint is another one.
    async fn replace_seal_fingerprint(&self, former: &str, new: &str) -> Result<(), StoreError>;
}

/// Notifications by other gateways.
#[async_trait]
pub trait Notifications: Send + Sync {
    /// Calls `notify` with [`Notification::Changes`] once it is connected, and with each notification.
    /// Returns when the connection is lost, with the reason.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    async fn watch(&self, notify: &(dyn Fn(Notification) + Send + Sync)) -> StoreError;
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// There may be changes that were not applied.
    Changes,
    /// Another gateway lacks a part of a shared pool.
    Recall(Recall),
}

/// Objects that other gateways changed, in their present state.
#[derive(Debug, Default)]
pub struct UnappliedChanges {
    /// The newest change that is contained.
    pub newest: ChangeSeq,
    /// Whether these are all objects. Others do not exist, such as those whose changes a failover lost.
    pub is_complete: bool,
    /// Changed accounts, and those whose balances operators changed.
    pub accounts: Vec<Account>,
    /// Changed people, removed ones included.
    pub people: Vec<Person>,
    /// Changed keys, revoked ones included.
    pub keys: Vec<Key>,
    /// The whole catalogue, if any part of it changed.
    pub catalogue: Option<StoredCatalogue>,
}

/// All plans, models and upstreams.
#[derive(Debug, Default)]
pub struct StoredCatalogue {
    /// All plans.
    pub plans: Vec<Plan>,
    /// All models.
    pub models: Vec<Model>,
    /// All upstreams.
    pub upstreams: Vec<Upstream>,
}

/// A gateway that joins the nodes of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoiningNode {
    /// The id of its data directory.
    pub id: NodeId,
    /// Its name.
    pub name: NodeName,
    /// The version of the gateway.
    pub version: &'static str,
    /// The listen address of its API.
    pub address: String,
    /// The silence after which it refuses requests.
    pub patience: Duration,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// It was recorded.
    Recorded(Heartbeat),
    /// This process must stop.
    Fenced(Fenced),
}

/// What a node learns from a heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether an operator drains the node.
    pub is_draining: bool,
    /// The cursor of the newest request record of any node.
    pub newest: Cursor,
    /// The newest change that any node has committed.
    pub newest_change: ChangeSeq,
    /// The newest change that this node has applied.
    pub applied_change: ChangeSeq,
}

/// The reason why a process may no longer write, and must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fenced {
    /// A later process has started in the data directory, or in a copy of it.
    #[error("another gateway has taken over this node: it has the same data directory, or a copy")]
    Superseded,
    /// An operator removed the node.
    #[error("this node was removed from the database")]
    Removed,
}
