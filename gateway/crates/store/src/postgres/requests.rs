//! The request log: single records, pages in both directions, counts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::time::timeout;

use super::PostgresStore;
use super::audit::rows;
use super::changes::ChangedObject;
use super::codec::{ReadColumn, parameters};
use super::commit::Repetition;
use super::error::is_repetition;
use super::filter::Selection;
use super::transaction::Connection;
use super::{commit, entries, partitions, summary};
use crate::codec::{At, Count};
use crate::condition::Condition;
use crate::records::{self, REQUEST};
use crate::{Cursor, RequestFilter, Requests, StoreError, Summary, TimeUnit};
use domain::audit::AuditEntry;
use domain::id::{AccountId, RequestId};
use domain::idempotency::{Answered, IdempotencyDigest};
use domain::ledger::Entry;
use domain::money::Nanos;
use domain::record::RequestRecord;

/// The time after which the commit of a batch has failed.
const COMMIT_LIMIT: Duration = Duration::from_secs(20);

/// The order of a page.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// From the oldest record on.
    OldestFirst,
    /// From the newest record on.
    NewestFirst,
}

#[async_trait]
impl Requests for PostgresStore {
    async fn commit(&self, batch: Arc<Vec<RequestRecord>>) -> Result<Cursor, StoreError> {
        let mut connection = self.connection().await?;
        // A batch can be sent again, so a stalled connection does not stop the writing of records.
        let outcome = timeout(COMMIT_LIMIT, async {
            match self.try_commit(&mut connection, &batch, Repetition::Unlikely).await {
                Err(error) if is_repetition(&error) => {
                    self.try_commit(&mut connection, &batch, Repetition::Possible).await
                }
                outcome => outcome,
            }
        })
        .await;
        connection.check_time(outcome)
    }

    async fn add_entry(&self, entry: &Entry, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        entries::add(&tx, std::slice::from_ref(entry)).await?;
        // So that a gateway that refuses the account's requests asks for its balance again.
        tx.changes(ChangedObject::Account(entry.account));
        tx.commit_audited(audit).await
    }

    async fn balance(&self, account: AccountId) -> Result<Nanos, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = "SELECT amount FROM balances WHERE account = $1";
        let row = tx.query_opt(sql, parameters![account]).await?;
        row.map_or(Ok(Nanos::ZERO), |row| row.column(0))
    }

    async fn find_request(&self, id: RequestId) -> Result<Option<RequestRecord>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = format!("SELECT {REQUEST} FROM requests WHERE id = $1");
        let row = tx.query_opt(&sql, parameters![id]).await?;
        row.map(|row| Ok(records::request(&row)?.1)).transpose()
    }

    async fn requests_before(
        &self,
        filter: &RequestFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
        let last = before.map(|before| before.0.saturating_sub(1));
        self.page(filter, (None, last), Order::NewestFirst, limit).await
    }

    async fn requests_after(
        &self,
        filter: &RequestFilter,
        after: Cursor,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
        let first = after.0.saturating_add(1);
        self.page(filter, (Some(first), None), Order::OldestFirst, limit).await
    }

    async fn count_requests(
        &self,
        filter: &RequestFilter,
        after: Cursor,
        until: Cursor,
    ) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let selection = Selection::of(&tx, filter).await?;
        let mut condition = selection.in_log(selection.since, selection.until);
        condition.and_if_some("seq > ?", Some(after.0));
        condition.and_if_some("seq <= ?", Some(until.0));
        let sql = format!("SELECT count(*) FROM requests {}", condition.sql());
        let counted = tx.query_with(&sql, &[condition]).await?;
        counted.first().map_or(Ok(0), |row| Ok(row.column::<Count>(0)?.0))
    }

    async fn answered_since(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Answered>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = "SELECT idempotency, id, started_at + duration FROM requests \
            WHERE idempotency IS NOT NULL AND started_at + duration >= $1 \
            ORDER BY started_at + duration DESC, seq DESC LIMIT $2";
        let newest = tx.query(sql, parameters![At(since), rows(limit)]).await?;
        let answered = newest.iter().rev().map(|row| {
            let (digest, id) = (IdempotencyDigest(row.column(0)?), row.column(1)?);
            Ok(Answered { digest, id, at: row.column::<At>(2)?.0 })
        });
        answered.collect()
    }

    async fn newest(&self) -> Result<Cursor, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let row = tx.query_one("log_end", "SELECT seq FROM log_end", &[]).await?;
        Ok(Cursor(row.column(0)?))
    }

    async fn summarize(&self, filter: &RequestFilter, by: TimeUnit) -> Result<Summary, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        partitions::keep(&tx).await?;
        let selection = Selection::of(&tx, filter).await?;
        summary::summarize(&tx, &selection, by).await
    }
}

impl PostgresStore {
    async fn try_commit(
        &self,
        connection: &mut Connection,
        batch: &[RequestRecord],
        repetition: Repetition,
    ) -> Result<Cursor, StoreError> {
        let tx = connection.begin(self.epoch).await?;
        let newest = commit::commit(&tx, self.epoch.id, batch, repetition).await?;
        tx.commit().await?;
        Ok(newest)
    }

    async fn page(
        &self,
        filter: &RequestFilter,
        ends: (Option<i64>, Option<i64>),
        order: Order,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let selection = Selection::of(&tx, filter).await?;
        let conditions = page_conditions(&selection, ends);
        if conditions.is_empty() {
            return Ok(Vec::new());
        }
        let page = tx.query_with(&page_sql(&conditions, order, limit), &conditions).await?;
        page.iter().map(records::request).collect()
    }
}

/// Returns the conditions on the parts of a page between the ends; none if nothing can match.
pub(super) fn page_conditions(
    selection: &Selection<'_>,
    (first, last): (Option<i64>, Option<i64>),
) -> Vec<Condition> {
    let parts = selection.parts().into_iter();
    let conditions = parts.map(|part| {
        let mut condition = part.in_log(part.since, part.until);
        condition.and_if_some("seq >= ?", first);
        condition.and_if_some("seq <= ?", last);
        condition
    });
    conditions.collect()
}

/// Returns the statement that reads a page of records that satisfy one of the conditions.
pub(super) fn page_sql(conditions: &[Condition], order: Order, limit: usize) -> String {
    let direction = match order {
        Order::OldestFirst => "ASC",
        Order::NewestFirst => "DESC",
    };
    let order = format!("ORDER BY seq {direction} LIMIT {}", rows(limit));
    let part = |condition: &Condition| {
        format!("SELECT {REQUEST} FROM requests {} {order}", condition.sql())
    };
    if let [condition] = conditions {
        return part(condition);
    }
    // Each part is read in order and ends early, and the parts are merged.
    let parts: Vec<_> = conditions.iter().map(|it| format!("({})", part(it))).collect();
    format!("{} {order}", parts.join(" UNION ALL "))
}
