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
    /// unless the store fails to write them. The copy is recorded in the audit log before it is made, so that the copy
    /// contains the entry, and so that nothing leaves the gateway unrecorded: a store that cannot be written is not copied.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Store`] if the store fails, and without an entry in the audit log
    /// if it cannot be copied by the gateway.
    pub async fn backup(self: &Arc<Self>, caller: &Caller) -> Result<StoreCopy, ControlError> {
        caller.require(Permission::CopyStore)?;
        self.store.check_copyable()?;
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
