//! What an operator does for the stored data as a whole.

use super::{Caller, Control, ControlError};
use store::StoreCopy;

impl Control {
    /// Makes a checked copy of all that is stored, the requests that ended before the call among it, unless
    /// the store does not take them.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members; the store's.
    pub async fn backup(&self, caller: &Caller) -> Result<StoreCopy, ControlError> {
        caller.require_operator("back the gateway up")?;
        self.ledger.flushed().await;
        let copy = self.store.copy().await?;
        let account = &caller.account.name;
        tracing::info!(account, bytes = copy.bytes, "the database was copied for a backup");
        Ok(copy)
    }
}
