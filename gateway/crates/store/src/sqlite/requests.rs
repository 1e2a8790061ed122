//! The request log: single records, pages in both directions, counts.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params_from_iter};

use super::codec::{Parameter, ReadColumn, parameters};
use super::filter::Selection;
use super::spans::{RowRange, SpanIndex};
use super::{SqliteStore, commit, summary};
use crate::codec::At;
use crate::condition::Condition;
use crate::records::{self, REQUEST};
use crate::{Cursor, RequestFilter, Requests, StoreError, Summary, TimeUnit};
use domain::audit::AuditEntry;
use domain::id::{AccountId, RequestId};
use domain::idempotency::{Answered, IdempotencyDigest};
use domain::ledger::Entry;
use domain::money::Nanos;
use domain::record::RequestRecord;

#[async_trait]
impl Requests for SqliteStore {
    async fn commit(&self, batch: Arc<Vec<RequestRecord>>) -> Result<Cursor, StoreError> {
        self.write(move |tx| commit::commit(tx, &batch)).await
    }

    async fn add_entry(&self, entry: &Entry, audit: &AuditEntry) -> Result<(), StoreError> {
        let entry = entry.clone();
        self.write_audited(audit, move |tx| commit::add_entries(tx, &[entry])).await
    }

    async fn balance(&self, account: AccountId) -> Result<Nanos, StoreError> {
        self.read(move |tx| {
            let mut select = tx.prepare_cached("SELECT amount FROM balances WHERE account = ?")?;
            let balance = select.query_row(parameters![account], |row| row.column(0)).optional()?;
            Ok(balance.unwrap_or_default())
        })
        .await
    }

    async fn find_request(&self, id: RequestId) -> Result<Option<RequestRecord>, StoreError> {
        self.read(move |tx| {
            let mut select =
                tx.prepare_cached(&format!("SELECT {REQUEST} FROM requests WHERE id = ?"))?;
            Ok(select.query_row(parameters![id], |row| Ok(records::request(row)?.1)).optional()?)
        })
        .await
    }

    async fn requests_before(
        &self,
        filter: &RequestFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
        let filter = filter.clone();
        let ends = (0, before.map_or(i64::MAX, |before| before.0.saturating_sub(1)));
        self.read_page(filter, ends, "DESC", limit).await
    }

    async fn requests_after(
        &self,
        filter: &RequestFilter,
        after: Cursor,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
        let filter = filter.clone();
        let ends = (after.0.saturating_add(1), i64::MAX);
        self.read_page(filter, ends, "ASC", limit).await
    }

    async fn count_requests(
        &self,
        filter: &RequestFilter,
        after: Cursor,
        until: Cursor,
    ) -> Result<u64, StoreError> {
        let filter = filter.clone();
        self.read_long(move |tx| {
            let selection = Selection::of(tx, &filter)?;
            let condition = selection.condition(tx, (after.0.saturating_add(1), until.0))?;
            let sql = format!("SELECT count(*) FROM {} {}", selection.source(), condition.sql());
            let mut select = tx.prepare_cached(&sql)?;
            let count: i64 = select
                .query_row(params_from_iter(condition.values().map(Parameter)), |row| {
                    row.column(0)
                })?;
            Ok(u64::try_from(count).unwrap_or_default())
        })
        .await
    }

    async fn answered_since(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Answered>, StoreError> {
        self.read(move |tx| {
            let mut select = tx.prepare_cached(
                "SELECT idempotency, id, started_at + duration AS ended FROM requests \
                 WHERE idempotency IS NOT NULL AND started_at + duration >= ? ORDER BY ended DESC",
            )?;
            let rows = select.query_map(parameters![At(since)], |row| {
                let (digest, id) = (IdempotencyDigest(row.column(0)?), row.column(1)?);
                Ok(Answered { digest, id, at: row.column::<At>(2)?.0 })
            })?;
            let mut answered = rows.take(limit).collect::<Result<Vec<_>, _>>()?;
            answered.reverse();
            Ok(answered)
        })
        .await
    }

    async fn newest(&self) -> Result<Cursor, StoreError> {
        self.read(|tx| commit::newest(tx)).await
    }

    async fn summarize(&self, filter: &RequestFilter, by: TimeUnit) -> Result<Summary, StoreError> {
        let filter = filter.clone();
        self.read_long(move |tx| summary::summarize(tx, &Selection::of(tx, &filter)?, by)).await
    }
}

impl SqliteStore {
    /// Reads a page. A page of everything, or of an account or a time range, is where an index says;
    /// another filter may match nothing in the whole log, and that of a key in all records of its account.
    async fn read_page(
        &self,
        filter: RequestFilter,
        ends: RowRange,
        direction: &'static str,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
        let is_short = filter.key.is_none()
            && filter.model.is_none()
            && filter.status.is_none()
            && filter.terms.is_empty();
        let work = move |tx: &Transaction<'_>| page(tx, &filter, ends, direction, limit);
        if is_short { self.read(work).await } else { self.read_long(work).await }
    }
}

fn page(
    tx: &Connection,
    filter: &RequestFilter,
    (first, last): RowRange,
    direction: &str,
    limit: usize,
) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
    let selection = Selection::of(tx, filter)?;
    let mut ranges = selection.ranges(tx)?;
    if direction == "DESC" {
        ranges.reverse();
    }
    let parts = selection.parts();
    let mut page = Vec::new();
    for (begin, end) in ranges {
        let ends = (first.max(begin), last.min(end));
        let wanted = limit - page.len();
        let mut found = Vec::new();
        for part in &parts {
            found.extend(first_rows(tx, part, ends, direction, wanted)?);
        }
        if parts.len() > 1 {
            found.sort_unstable_by_key(|(cursor, _)| *cursor);
            if direction == "DESC" {
                found.reverse();
            }
            found.truncate(wanted);
        }
        page.append(&mut found);
        if page.len() == limit {
            break;
        }
    }
    Ok(page)
}

/// Returns the first rows of the selection between the ends.
fn first_rows(
    tx: &Connection,
    selection: &Selection,
    ends: RowRange,
    direction: &str,
    limit: usize,
) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
    let (sql, condition) = page_sql(tx, selection, ends, direction)?;
    let mut select = tx.prepare_cached(&sql)?;
    let values = params_from_iter(condition.values().map(Parameter));
    let rows = select.query_map(values, |row| records::request(row))?;
    Ok(rows.take(limit).collect::<Result<_, _>>()?)
}

/// Returns the statement that reads the selection between the ends, and the condition with its
/// values.
pub(super) fn page_sql(
    tx: &Connection,
    selection: &Selection,
    ends: RowRange,
    direction: &str,
) -> Result<(String, Condition), StoreError> {
    let condition = selection.condition(tx, ends)?;
    let (source, order) = (selection.source(), SpanIndex::order(selection.account, direction));
    let sql = format!("SELECT {REQUEST} FROM {source} {} ORDER BY {order}", condition.sql());
    Ok((sql, condition))
}
