//! Paginated ledger entries, and the entry point of the verification.

use async_trait::async_trait;
use rusqlite::{Connection, params_from_iter};

use super::codec::Parameter;
use super::spans::{self, SpanIndex};
use super::{SqliteStore, verify};
use crate::condition::Condition;
use crate::records::{self, ENTRY};
use crate::{Cursor, LedgerEntries, StoreError};
use domain::id::AccountId;
use domain::ledger::Entry;
use domain::verification::VerificationReport;

#[async_trait]
impl LedgerEntries for SqliteStore {
    async fn entries_before(
        &self,
        account: Option<AccountId>,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, Entry)>, StoreError> {
        self.read(move |tx| page(tx, account, before, limit)).await
    }

    async fn verify_ledger(&self) -> Result<VerificationReport, StoreError> {
        self.background_reads.run(verify::verify).await
    }
}

fn page(
    tx: &Connection,
    account: Option<AccountId>,
    before: Option<Cursor>,
    limit: usize,
) -> Result<Vec<(Cursor, Entry)>, StoreError> {
    let (sql, condition) = page_sql(account, before);
    let mut select = tx.prepare_cached(&sql)?;
    let rows = select.query_map(params_from_iter(condition.values().map(Parameter)), |row| {
        records::entry(row)
    })?;
    Ok(rows.take(limit).collect::<Result<_, _>>()?)
}

/// Returns the statement that reads a page, and the condition with its values.
pub(super) fn page_sql(account: Option<AccountId>, before: Option<Cursor>) -> (String, Condition) {
    let mut condition = Condition::default();
    let last = before.map_or(i64::MAX, |before| before.0.saturating_sub(1));
    spans::ENTRY_SPANS.narrow(&mut condition, account, (0, last));
    let (source, order) = (spans::ENTRY_SPANS.source(account), SpanIndex::order(account, "DESC"));
    let sql = format!("SELECT {ENTRY} FROM {source} {} ORDER BY {order}", condition.sql());
    (sql, condition)
}
