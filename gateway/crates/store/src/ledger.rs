//! The ledger as a whole: its entries, page by page, and its verification.

use async_trait::async_trait;

use super::{Cursor, StoreError};
use domain::id::AccountId;
use domain::ledger::Entry;
use domain::verification::VerificationReport;

/// Reads the ledger as a whole.
#[async_trait]
pub trait LedgerEntries: Send + Sync {
    /// Returns up to `limit` entries before `before` (from the end if `None`), newest first, of one account
    /// or of all.
    async fn entries_before(
        &self,
        account: Option<AccountId>,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, Entry)>, StoreError>;
    /// Recomputes balances, charges and sums from their parts, in one consistent view, beside all other work.
    /// Memory grows by some bits per record. Runs one at a time and never beside a
    /// [copy](super::StoreMaintenance::copy). Dropping the future cancels it.
    async fn verify_ledger(&self) -> Result<VerificationReport, StoreError>;
}
