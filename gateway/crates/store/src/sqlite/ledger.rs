//! Paginated ledger entries, and the entry point of the verification.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params_from_iter};

use super::codec::{At, EntryCode, Parameter, ReadColumn};
use super::condition::Condition;
use super::spans::{self, SpanIndex};
use super::{SqliteStore, verify};
use crate::{Cursor, LedgerEntries, StoreError};
use domain::id::AccountId;
use domain::ledger::{Entry, EntryKind};
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
    let rows = select.query_map(params_from_iter(condition.values().map(Parameter)), read)?;
    Ok(rows.take(limit).collect::<Result<_, _>>()?)
}

/// Returns the statement that reads a page, and the condition with its values.
pub(super) fn page_sql(account: Option<AccountId>, before: Option<Cursor>) -> (String, Condition) {
    let mut condition = Condition::default();
    let last = before.map_or(i64::MAX, |before| before.0.saturating_sub(1));
    spans::ENTRY_SPANS.narrow(&mut condition, account, (0, last));
    let (source, order) = (spans::ENTRY_SPANS.source(account), SpanIndex::order(account, "DESC"));
    let sql = format!(
        "SELECT seq, account, amount, kind, request, note, at FROM {source} {} ORDER BY {order}",
        condition.sql()
    );
    (sql, condition)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(Cursor, Entry)> {
    let note = || Ok::<_, rusqlite::Error>(row.column::<Option<String>>(5)?.unwrap_or_default());
    let kind = match row.column(3)? {
        EntryCode::Trial => EntryKind::Trial,
        EntryCode::Credit => EntryKind::Credit(note()?),
        EntryCode::Charge => EntryKind::Charge(row.column(4)?),
        EntryCode::Correction => EntryKind::Correction(note()?),
        EntryCode::Overrun => EntryKind::Overrun(row.column(4)?),
    };
    let entry =
        Entry { account: row.column(1)?, amount: row.column(2)?, kind, at: row.column::<At>(6)?.0 };
    Ok((Cursor(row.column(0)?), entry))
}
