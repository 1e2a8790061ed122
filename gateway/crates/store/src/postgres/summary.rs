//! Sums over requests, from the sums by hour and day and, for partial hours at the ends, from the
//! log. The database adds up the rows of each source, exactly; the results saturate.

use tokio_postgres::Row;

use super::codec::{Parameter, ReadColumn, parameters};
use super::filter::Selection;
use super::transaction::Transaction;
use crate::codec::Count;
use crate::codes::Code;
use crate::condition::Condition;
use crate::summary::{GroupedTotals, SplitRange, TimeRange, accumulate, partial_hour};
use crate::{StoreError, Summary, TimeUnit, Totals};
use domain::id::KeyId;
use domain::record::RequestStatus;

/// Returns the sums over the selected requests. Requires that the transaction has called
/// [`keep`](super::partitions::keep) before any other statement.
pub(super) async fn summarize(
    tx: &Transaction<'_>,
    selection: &Selection<'_>,
    by: TimeUnit,
) -> Result<Summary, StoreError> {
    let (since, until) = (selection.since, selection.until);
    let mut sums = GroupedTotals::new(by);
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return sums.into_summary();
    }
    let split = if by == TimeUnit::Minute || selection.needs_log() {
        SplitRange::log_only(since, until)
    } else {
        let has_deleted = [has_deleted(tx, since).await?, has_deleted(tx, until).await?];
        SplitRange::new(since, until, has_deleted)
    };
    for (since, until) in split.log {
        let source = format!(
            "SELECT account, key, model, {} AS time, status, coalesce(count, 1) AS requests, \
                input, cached, output, reasoning, cost FROM requests",
            match by {
                TimeUnit::Day => "day".to_owned(),
                TimeUnit::Hour | TimeUnit::Minute => {
                    format!("floor(started_at / {}.0)::bigint", by.length())
                }
            },
        );
        add_rows(tx, &source, &selection.in_log(since, until), &mut sums).await?;
    }
    let Some(hours) = split.hours else { return finish(tx, sums).await };
    // The sums by day cannot be divided into hours.
    let parts = hours.split_days().filter(|_| by == TimeUnit::Day);
    let (days, hours) = match parts {
        Some((before, days, after)) => (Some(days), [before, after]),
        None => (None, [Some(hours), None]),
    };
    for hours in hours.into_iter().flatten() {
        let source = format!(
            "SELECT account, key, model, {} AS time, status, requests, input, cached, output, \
                reasoning, cost FROM request_sums",
            match by {
                // Rounded down, also before 1970.
                TimeUnit::Day => "floor(hour / 24.0)::bigint",
                TimeUnit::Hour | TimeUnit::Minute => "hour",
            },
        );
        add_rows(tx, &source, &within(selection, "hour", hours), &mut sums).await?;
    }
    if let Some(days) = days {
        let source = "SELECT account, key, model, day AS time, status, requests, input, cached, \
            output, reasoning, cost FROM key_days";
        add_rows(tx, source, &within(selection, "day", days), &mut sums).await?;
    }
    finish(tx, sums).await
}

/// Returns whether records of the hour that `time` divides were deleted from the log.
async fn has_deleted(tx: &Transaction<'_>, time: Option<i64>) -> Result<bool, StoreError> {
    let Some(hour) = partial_hour(time) else { return Ok(false) };
    let sql = "SELECT EXISTS (SELECT FROM deleted_sums WHERE hour = $1)";
    tx.query_one("deleted_sums", sql, parameters![hour]).await?.column(0)
}

fn within(selection: &Selection<'_>, unit: &str, range: TimeRange) -> Condition {
    let mut condition = selection.in_sums();
    condition.and_if_some(&format!("{unit} >= ?"), range.first);
    condition.and_if_some(&format!("{unit} < ?"), range.end);
    condition
}

/// Adds the sums of a source by model and unit of time, and by account and key.
async fn add_rows(
    tx: &Transaction<'_>,
    source: &str,
    condition: &Condition,
    sums: &mut GroupedTotals,
) -> Result<(), StoreError> {
    let errors = RequestStatus::ALL.into_iter().filter(|status| status.is_error());
    let errors: Vec<_> = errors.map(|status| status.code().to_string()).collect();
    let sum = |column: &str| format!("saturated(coalesce(sum({column}), 0))");
    let sql = format!(
        "SELECT grouping(account) = 0 AS is_key, model, time, account, key, {}, \
            saturated(coalesce(sum(requests) FILTER (WHERE status IN ({})), 0)), {} \
            FROM ({source} {}) AS source GROUP BY GROUPING SETS ((model, time), (account, key))",
        sum("requests"),
        errors.join(", "),
        ["input", "cached", "output", "reasoning", "cost"].map(sum).join(", "),
        condition.sql(),
    );
    for row in tx.query_with(&sql, std::slice::from_ref(condition)).await? {
        let sum = if row.column("is_key")? {
            sums.keys.entry((row.column("account")?, row.column("key")?)).or_default()
        } else {
            sums.groups.entry((row.column("model")?, row.column("time")?)).or_default()
        };
        accumulate(sum, &read(&row)?);
    }
    Ok(())
}

async fn finish(tx: &Transaction<'_>, sums: GroupedTotals) -> Result<Summary, StoreError> {
    let mut summary = sums.into_summary()?;
    let keys: Vec<_> = summary.by_key.iter().map(|sum| Parameter(sum.key.clone())).collect();
    let sql = "SELECT id, label FROM keys WHERE id = ANY($1)";
    let mut labels = std::collections::HashMap::<KeyId, String>::new();
    for row in tx.query(sql, &[&keys]).await? {
        labels.insert(row.column(0)?, row.column(1)?);
    }
    for sum in &mut summary.by_key {
        sum.label = labels.remove(&sum.key);
    }
    Ok(summary)
}

fn read(row: &Row) -> Result<Totals, StoreError> {
    let count = |column: usize| Ok::<_, StoreError>(row.column::<Count>(column)?.0);
    Ok(Totals {
        requests: count(5)?,
        errors: count(6)?,
        input: count(7)?,
        cached: count(8)?,
        output: count(9)?,
        reasoning: count(10)?,
        cost: row.column(11)?,
    })
}
