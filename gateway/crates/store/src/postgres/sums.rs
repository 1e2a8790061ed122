//! Maintains sums over requests by hour and by day, in the transactions of their records.
//!
//! `summary.rs` reads them. Sums over all accounts are not stored, because each batch of each
//! gateway would change the same rows.

use std::sync::LazyLock;

use futures_util::future;

use super::codec::arrays;
use super::transaction::Transaction;
use crate::codec::Count;
use crate::summary::{self, KeySums, by_day};
use crate::{StoreError, Totals};
use domain::id::{AccountId, KeyId, ModelId};
use domain::record::{RequestRecord, RequestStatus};

static ADD_TO_HOURS: LazyLock<String> = LazyLock::new(|| adding("request_sums", "hour"));
static ADD_TO_DELETED: LazyLock<String> = LazyLock::new(|| adding("deleted_sums", "hour"));
static ADD_TO_DAYS: LazyLock<String> = LazyLock::new(|| adding("key_days", "day"));

/// A row of sums.
struct SumRow<'a> {
    account: AccountId,
    /// The hour or day.
    unit: i64,
    key: &'a KeyId,
    model: Option<&'a ModelId>,
    status: RequestStatus,
    totals: Totals,
}

/// Sums records by hour and key.
pub(super) fn by_key<'a>(fresh: &[(i64, &'a RequestRecord)]) -> KeySums<'a> {
    summary::by_key(fresh.iter().map(|(_, record)| *record))
}

/// Adds records to the sums: one row per group of the batch, not per record.
pub(super) async fn add(tx: &Transaction<'_>, hours: &KeySums<'_>) -> Result<(), StoreError> {
    future::try_join(add_hours(tx, &ADD_TO_HOURS, hours), add_days(tx, hours)).await?;
    Ok(())
}

/// Adds deleted records to the sums of deleted records.
pub(super) async fn add_deleted(
    tx: &Transaction<'_>,
    hours: &KeySums<'_>,
) -> Result<(), StoreError> {
    add_hours(tx, &ADD_TO_DELETED, hours).await
}

async fn add_hours(tx: &Transaction<'_>, sql: &str, hours: &KeySums<'_>) -> Result<(), StoreError> {
    let rows = hours.iter().map(|(&(account, key, (unit, model, status)), &totals)| SumRow {
        account,
        unit,
        key,
        model,
        status,
        totals,
    });
    add_rows(tx, sql, &rows.collect::<Vec<_>>()).await
}

async fn add_days(tx: &Transaction<'_>, hours: &KeySums<'_>) -> Result<(), StoreError> {
    let rows = by_day(hours).into_iter().map(|((unit, account, key, model, status), totals)| {
        SumRow { account, unit, key, model, status, totals }
    });
    add_rows(tx, &ADD_TO_DAYS, &rows.collect::<Vec<_>>()).await
}

async fn add_rows(tx: &Transaction<'_>, sql: &str, rows: &[SumRow<'_>]) -> Result<(), StoreError> {
    let values = arrays!(
        rows,
        |row| row.account,
        row.unit,
        row.key,
        row.model,
        row.status,
        Count(row.totals.requests),
        Count(row.totals.input),
        Count(row.totals.cached),
        Count(row.totals.output),
        Count(row.totals.reasoning),
        row.totals.cost,
    );
    tx.execute(sql, values).await?;
    Ok(())
}

/// Returns the sum of a column of the rows `stored` and `excluded`, saturated. The function `saturating_add` does the
/// same at ten times the cost of this expression.
pub(super) fn saturating_addition(column: &str) -> String {
    let (stored, added) = (format!("stored.{column}"), format!("excluded.{column}"));
    let (min, max) = ("(-9223372036854775807 - 1)", "9223372036854775807");
    format!(
        "CASE WHEN {added} > 0 AND {stored} > {max} - {added} THEN {max} \
            WHEN {added} < 0 AND {stored} < {min} - {added} THEN {min} ELSE {stored} + {added} END"
    )
}

fn adding(table: &str, unit: &str) -> String {
    let sums = ["requests", "input", "cached", "output", "reasoning", "cost"];
    let add = |sum| format!("{sum} = {}", saturating_addition(sum));
    format!(
        "INSERT INTO {table} AS stored (account, {unit}, key, model, status, {}) \
            SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::smallint[], \
            $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[]) \
            ON CONFLICT (account, {unit}, key, model, status) DO UPDATE SET {}",
        sums.join(", "),
        sums.map(add).join(", ")
    )
}
