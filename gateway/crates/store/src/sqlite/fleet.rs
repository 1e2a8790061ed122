//! The questions about other gateways, which a database in the data directory of one does not have.

use async_trait::async_trait;

use super::SqliteStore;
use crate::StoreError;
use crate::fleet::{Changes, Nodes, SealKeys, UnappliedChanges};
use domain::audit::AuditEntry;
use domain::change::ChangeSeq;
use domain::node::{NodeName, NodeRemoval, NodeStatus};

const ALONE: StoreError = StoreError::Unsupported(
    "this gateway stores its data in SQLite, which one gateway uses; several gateways need PostgreSQL",
);

#[async_trait]
impl Nodes for SqliteStore {
    async fn nodes(&self) -> Result<Vec<NodeStatus>, StoreError> {
        Err(ALONE)
    }

    async fn set_draining(&self, _: &NodeName, _: bool, _: &AuditEntry) -> Result<(), StoreError> {
        Err(ALONE)
    }

    async fn remove_node(
        &self,
        _: &NodeName,
        _: NodeRemoval,
        _: &AuditEntry,
    ) -> Result<(), StoreError> {
        Err(ALONE)
    }
}

#[async_trait]
impl Changes for SqliteStore {
    async fn unapplied_changes(&self) -> Result<UnappliedChanges, StoreError> {
        Ok(UnappliedChanges::default())
    }

    fn mark_applied(&self, _: ChangeSeq) {}

    async fn delete_old_changes(&self, _: u32, _: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl SealKeys for SqliteStore {
    async fn seal_fingerprint(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    async fn claim_seal_fingerprint(&self, fingerprint: &str) -> Result<String, StoreError> {
        Ok(fingerprint.to_owned())
    }

    async fn replace_seal_fingerprint(&self, _: &str, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
}
