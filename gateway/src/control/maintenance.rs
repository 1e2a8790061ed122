//! Backups of the whole store.

use super::access::Permission;
use super::{Caller, Control, ControlError};
use store::{Schema, StoreCopy};

impl Control {
    /// Returns the schema that this gateway uses.
    pub fn schema(&self) -> Schema {
        self.schema
    }

    /// Copies the store and checks the copy. Contains the requests that ended before the call,
    /// unless the store fails to write them.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Store`] if the store fails.
    pub async fn backup(&self, caller: &Caller) -> Result<StoreCopy, ControlError> {
        caller.require(Permission::CopyStore)?;
        self.ledger.wait_until_stored().await;
        let copy = self.store.copy().await?;
        let account = &caller.account.name;
        tracing::info!(account, bytes = copy.bytes, "the database was copied for a backup");
        Ok(copy)
    }
}
