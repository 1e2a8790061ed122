//! Verification of the ledger: the database recomputes balances, charges and sums, in one
//! transaction that reads one consistent state. Each statement returns only differences.

use futures_util::TryStreamExt;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::codec::{AnyParameter, ReadColumn, parameters};
use super::entries;
use super::partitions::keep;
use super::transaction::Transaction;
use crate::StoreError;
use crate::codec::Count;
use crate::codes::EntryCode;
use crate::summary::{DAY, HOUR};
use domain::id::AccountId;
use domain::ledger::HOUSE;
use domain::money::Nanos;
use domain::verification::{Difference, VerificationReport};

/// The charges and overruns with the record, the payer and the cost that each should have.
const BOOKED: &str = "SELECT entry.account, entry.amount, entry.request, entry.kind, record.id, \
    CASE entry.kind WHEN $1 THEN record.account ELSE $3 END AS payer, \
    CASE entry.kind WHEN $1 THEN record.cost ELSE coalesce(record.overrun, 0) END AS cost \
    FROM ledger_entries AS entry JOIN requests AS record ON record.id = entry.request \
    WHERE entry.kind IN ($1, $2)";

/// Verifies the ledger.
pub(super) async fn verify(tx: &Transaction<'_>) -> Result<VerificationReport, StoreError> {
    // The server notices within a second that the connection was closed, and stops.
    tx.execute_batch("SET LOCAL client_connection_check_interval = 1000").await?;
    keep(tx).await?;
    let mut report = count(tx).await?;
    report.balances = entries::balances(tx).await?;
    check_balances(tx, &mut report).await?;
    check_entries(tx, &mut report).await?;
    check_requests(tx, &mut report).await?;
    check_charges_without_record(tx, &mut report).await?;
    check_sums(tx, &mut report).await?;
    Ok(report)
}

async fn count(tx: &Transaction<'_>) -> Result<VerificationReport, StoreError> {
    let sql = "SELECT (SELECT count(*) FROM ledger_entries), \
        (SELECT count(*) FROM ledger_entries WHERE kind = $1), (SELECT count(*) FROM requests), \
        (SELECT count(*) FROM request_sums) + (SELECT count(*) FROM key_days)";
    let row = tx.query_one("the ledger", sql, parameters![EntryCode::Charge]).await?;
    let count = |column: usize| Ok::<_, StoreError>(row.column::<Count>(column)?.0);
    Ok(VerificationReport {
        entries: count(0)?,
        charges: count(1)?,
        requests: count(2)?,
        sums: count(3)?,
        ..VerificationReport::default()
    })
}

/// Compares balances with the exact sums of their entries and, where these differ, with the sums
/// that saturate after each entry.
async fn check_balances(
    tx: &Transaction<'_>,
    report: &mut VerificationReport,
) -> Result<(), StoreError> {
    let sql = "SELECT account, coalesce(balances.amount, 0) FROM balances FULL JOIN \
        (SELECT account, saturated(sum(amount)) AS amount FROM ledger_entries GROUP BY account) \
        AS entries USING (account) \
        WHERE coalesce(balances.amount, 0) <> coalesce(entries.amount, 0)";
    let ordered = "SELECT coalesce(saturating_sum(amount ORDER BY seq), 0) FROM ledger_entries \
        WHERE account = $1";
    let mut rows = tx.stream(sql, &[]).await?;
    let mut differing = Vec::<(AccountId, Nanos)>::new();
    while let Some(row) = rows.try_next().await? {
        differing.push((row.column(0)?, row.column(1)?));
    }
    for (account, stored) in differing {
        let row = tx.query_one("the ledger", ordered, parameters![account]).await?;
        let entries = row.column(0)?;
        if entries != stored {
            report.add(Difference::Balance { account, stored, entries });
        }
    }
    Ok(())
}

/// Compares each charge and overrun with its record.
async fn check_entries(
    tx: &Transaction<'_>,
    report: &mut VerificationReport,
) -> Result<(), StoreError> {
    let values = parameters![EntryCode::Charge, EntryCode::Overrun, HOUSE];
    let sql = format!(
        "SELECT account, amount, request, payer, cost FROM ({BOOKED}) AS booked \
            WHERE payer <> account OR cost::numeric IS DISTINCT FROM -amount::numeric"
    );
    add_rows(tx, &sql, values, report, |row, report| {
        let (account, amount): (AccountId, Nanos) = (row.column(0)?, row.column(1)?);
        let (request, cost) = (row.column(2)?, row.column::<Option<Nanos>>(4)?);
        if row.column::<AccountId>(3)? != account {
            report.add(Difference::Payer { request, account });
        }
        if cost != Some(-amount) {
            report.add(Difference::Amount { request, cost, charged: -amount });
        }
        Ok(())
    })
    .await?;
    let sql = format!(
        "SELECT request FROM (SELECT request, row_number() OVER (PARTITION BY request, kind) \
            AS number FROM ({BOOKED}) AS booked) AS numbered WHERE number > 1"
    );
    add_rows(tx, &sql, values, report, |row, report| {
        report.add(Difference::Twice { request: row.column(0)? });
        Ok(())
    })
    .await
}

/// Checks that the cost and the overrun of each request were booked.
async fn check_requests(
    tx: &Transaction<'_>,
    report: &mut VerificationReport,
) -> Result<(), StoreError> {
    for (cost, kind) in [("cost", EntryCode::Charge), ("overrun", EntryCode::Overrun)] {
        let sql = format!(
            "SELECT id, {cost} FROM requests WHERE {cost} <> 0 AND NOT EXISTS \
                (SELECT FROM ledger_entries WHERE request = requests.id AND kind = $1)"
        );
        add_rows(tx, &sql, parameters![kind], report, |row, report| {
            report.add(Difference::Uncharged { request: row.column(0)?, cost: row.column(1)? });
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Compares the charges without a record with the costs of the deleted records.
async fn check_charges_without_record(
    tx: &Transaction<'_>,
    report: &mut VerificationReport,
) -> Result<(), StoreError> {
    let sql = "SELECT account, saturated(sum(charged)), saturated(sum(removed)) FROM \
        (SELECT account, -amount::numeric AS charged, 0 AS removed FROM ledger_entries AS entry \
        WHERE kind = $1 AND NOT EXISTS (SELECT FROM requests WHERE id = entry.request) \
        UNION ALL SELECT account, 0, cost FROM deleted_sums) AS parts \
        GROUP BY account HAVING sum(charged) <> sum(removed) ORDER BY account";
    add_rows(tx, sql, parameters![EntryCode::Charge], report, |row, report| {
        let (account, charged, removed) = (row.column(0)?, row.column(1)?, row.column(2)?);
        report.add(Difference::Unrecorded { account, charged, removed });
        Ok(())
    })
    .await
}

/// Compares the sums by hour with the records, and those by day with those by hour. Times are rounded down, also before
/// 1970.
async fn check_sums(
    tx: &Transaction<'_>,
    report: &mut VerificationReport,
) -> Result<(), StoreError> {
    let hours = differing_sums(
        "request_sums",
        "hour",
        &[
            "SELECT account, floor(started_at / 3600000000.0)::bigint, key, model, status, \
            coalesce(count, 1), coalesce(input, 0), coalesce(cached, 0), coalesce(output, 0), coalesce(reasoning, 0), \
            coalesce(cost, 0) FROM requests",
            "SELECT account, hour, key, model, status, requests, input, cached, output, reasoning, \
            cost FROM deleted_sums",
        ],
    );
    add_rows(tx, &hours, &[], report, |row, report| {
        report.add(Difference::Sums { hour: start(row, HOUR)? });
        Ok(())
    })
    .await?;
    let days = differing_sums(
        "key_days",
        "day",
        &["SELECT account, floor(hour / 24.0)::bigint, key, model, status, requests, input, \
            cached, output, reasoning, cost FROM request_sums"],
    );
    add_rows(tx, &days, &[], report, |row, report| {
        report.add(Difference::KeySums { day: start(row, DAY)? });
        Ok(())
    })
    .await
}

/// Returns a statement that finds the units of time in which the sums of `table` differ from the
/// saturated sums of `parts`.
fn differing_sums(table: &str, unit: &str, parts: &[&str]) -> String {
    let sums = ["requests", "input", "cached", "output", "reasoning", "cost"];
    let group = format!("account, {unit}, key, model, status");
    let parts: Vec<_> = parts
        .iter()
        .map(|part| format!("SELECT *, 0, 0, 0, 0, 0, 0 FROM ({part}) AS part"))
        .collect();
    let names = sums.map(|sum| format!("part_{sum}")).join(", ");
    let differs = sums.map(|sum| format!("saturated(sum(part_{sum})) <> sum({sum})")).join(" OR ");
    let sums = sums.join(", ");
    format!(
        "SELECT DISTINCT {unit} FROM (SELECT {unit} FROM \
            (SELECT {group}, 0, 0, 0, 0, 0, 0, {sums} FROM {table} UNION ALL {}) \
            AS sums ({group}, {names}, {sums}) GROUP BY {group} HAVING {differs}) AS differing \
            ORDER BY {unit}",
        parts.join(" UNION ALL ")
    )
}

/// Returns the start of a period that is `unit` long.
fn start(row: &Row, unit: i64) -> Result<Timestamp, StoreError> {
    let number = row.column::<i64>(0)?;
    Ok(Timestamp::from_microsecond(number.saturating_mul(unit)).unwrap_or_default())
}

async fn add_rows(
    tx: &Transaction<'_>,
    sql: &str,
    values: &[AnyParameter<'_>],
    report: &mut VerificationReport,
    add: impl Fn(&Row, &mut VerificationReport) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut rows = tx.stream(sql, values).await?;
    while let Some(row) = rows.try_next().await? {
        add(&row, report)?;
    }
    Ok(())
}
