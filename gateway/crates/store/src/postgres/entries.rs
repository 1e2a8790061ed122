//! Ledger entries and balances, and the entry point of the verification.

use std::sync::LazyLock;

use async_trait::async_trait;

use super::audit::rows;
use super::codec::{ReadColumn, arrays, parameters};
use super::sums::saturating_addition;
use super::transaction::Transaction;
use super::{PostgresStore, verify};
use crate::codec::At;
use crate::condition::Condition;
use crate::records::{self, ENTRY};
use crate::summary::balance_changes;
use crate::{Cursor, LedgerEntries, StoreError};
use domain::id::AccountId;
use domain::ledger::Entry;
use domain::money::Nanos;
use domain::verification::VerificationReport;

static ADD_TO_BALANCES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO balances AS stored (account, amount) \
            SELECT * FROM unnest($1::uuid[], $2::bigint[]) ON CONFLICT (account) \
            DO UPDATE SET amount = {}",
        saturating_addition("amount")
    )
});

#[async_trait]
impl LedgerEntries for PostgresStore {
    async fn entries_before(
        &self,
        account: Option<AccountId>,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, Entry)>, StoreError> {
        let mut condition = Condition::default();
        condition.and_if_some("account = ?", account);
        condition.and_if_some("seq < ?", before.map(|before| before.0));
        let (condition_sql, limit) = (condition.sql(), rows(limit));
        let sql = format!(
            "SELECT {ENTRY} FROM ledger_entries {condition_sql} ORDER BY seq DESC LIMIT {limit}"
        );
        let mut connection = self.connection().await?;
        let found = connection.view().await?.query_with(&sql, &[condition]).await?;
        found.iter().map(records::entry).collect()
    }

    async fn verify_ledger(&self) -> Result<VerificationReport, StoreError> {
        let _permit = self.background.acquire().await;
        let mut connection = self.connection().await?.detach();
        verify::verify(&connection.view().await?).await
    }
}

/// Writes ledger entries. A balance is the sum of its entries in their order, saturated after each.
pub(super) async fn add(tx: &Transaction<'_>, entries: &[Entry]) -> Result<(), StoreError> {
    let mut copy = tx.copy_in("ledger_entries", "account, amount, kind, request, note, at").await?;
    for entry in entries {
        let (kind, request, note) = records::entry_columns(&entry.kind);
        let at = At(entry.at);
        copy.write(parameters![entry.account, entry.amount, kind, request, note, at]).await?;
    }
    copy.finish().await?;
    let (first, rest) = balance_changes(entries);
    // One statement must not change a row twice.
    for change in first {
        add_to_balances(tx, &[change]).await?;
    }
    let rest: Vec<_> = rest.into_iter().collect();
    add_to_balances(tx, &rest).await
}

/// Returns the balance of each account that has ledger entries.
pub(super) async fn balances(tx: &Transaction<'_>) -> Result<Vec<(AccountId, Nanos)>, StoreError> {
    let rows = tx.query("SELECT account, amount FROM balances ORDER BY account", &[]).await?;
    rows.iter().map(|row| Ok((row.column(0)?, row.column(1)?))).collect()
}

async fn add_to_balances(
    tx: &Transaction<'_>,
    changes: &[(AccountId, Nanos)],
) -> Result<(), StoreError> {
    tx.execute(&ADD_TO_BALANCES, arrays!(changes, |row| row.0, row.1)).await?;
    Ok(())
}
