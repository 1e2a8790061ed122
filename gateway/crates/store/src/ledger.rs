//! Paginated access to ledger entries, and verification of the ledger.

use async_trait::async_trait;

use super::{Cursor, StoreError};
use domain::id::AccountId;
use domain::ledger::Entry;
use domain::verification::VerificationReport;

/// Reads and verifies the ledger.
#[async_trait]
pub trait LedgerEntries: Send + Sync {
    /// Returns up to `limit` entries before `before` (from the end if `None`), newest first, of one
    /// account or of all.
    async fn entries_before(
        &self,
        account: Option<AccountId>,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, Entry)>, StoreError>;
    /// Recomputes balances, charges, overruns and sums from their parts, in one consistent view,
    /// concurrently with all other work. Memory grows by a few bits per record. At most one
    /// verification or [copy](super::StoreMaintenance::copy) runs at a time.
    ///
    /// An overrun is compared and reported like a charge of the operator's account. The overruns of
    /// deleted records are not verified, because only their costs are kept.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the verification.
    async fn verify_ledger(&self) -> Result<VerificationReport, StoreError>;
}
