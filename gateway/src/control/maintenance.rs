//! Backups of the whole store.

use std::sync::Arc;

use super::access::Permission;
use super::{Caller, Control, ControlError};
use domain::audit::AuditAction;
use store::{Schema, StoreCopy};

impl Control {
    /// Returns the schema that this gateway uses.
    pub fn schema(&self) -> Schema {
        self.schema
    }

    /// Copies the store and checks the copy. Contains the requests that ended before the call,
    /// unless the store fails to write them. The audit log has it, also in the copy.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Store`] if the store fails.
    pub async fn backup(self: &Arc<Self>, caller: &Caller) -> Result<StoreCopy, ControlError> {
        caller.require(Permission::CopyStore)?;
        self.write(Some(caller), |control| async move {
            let audit = control.audit_entry(AuditAction::DatabaseBackup, "database", None, "");
            Ok(control.store.add_audit(&audit).await?)
        })
        .await?;
        self.ledger.wait_until_stored().await;
        let copy = self.store.copy().await?;
        let account = &caller.account.name;
        tracing::info!(account, bytes = copy.bytes, "the database was copied for a backup");
        Ok(copy)
    }
}
