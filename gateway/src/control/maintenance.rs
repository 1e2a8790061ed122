//! What an operator does for the stored data as a whole.

use super::{Caller, Control, ControlError};
use crate::store::StoreCopy;

impl Control {
    /// Makes a checked copy of all that is stored. What is on its way to the store is not in it: at
    /// most what has happened in the last moments.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members; the store's.
    pub async fn backup(&self, caller: &Caller) -> Result<StoreCopy, ControlError> {
        caller.require_operator("back the gateway up")?;
        let copy = self.store.copy().await?;
        let account = &caller.account.name;
        tracing::info!(account, bytes = copy.bytes, "the database was copied for a backup");
        Ok(copy)
    }
}
