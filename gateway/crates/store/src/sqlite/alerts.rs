//! Which conditions operators were notified of.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, ToSql};

use super::SqliteStore;
use super::codec::{ReadColumn, parameters};
use crate::alerts::{FAIR_ORDER, MAX_FOUND, RECORDED_SINCE, STORED_KINDS, alert};
use crate::codec::At;
use crate::{Alerts, StoreError};
use domain::alert::{AlertChanges, AlertId, AlertKind, AlertRules, SPEND_CAP_PERCENT};

#[async_trait]
impl Alerts for SqliteStore {
    async fn record_old_alerts(&self, rules: AlertRules) -> Result<(), StoreError> {
        self.write(move |tx| {
            let sql = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING";
            let values = parameters![RECORDED_SINCE, rules.now.to_string()];
            if tx.execute(sql, values)? == 0 {
                return Ok(());
            }
            for kind in STORED_KINDS {
                let (holding, [first, second]) = holding(kind, &rules);
                let sql = format!(
                    "INSERT INTO alerts (kind, subject, node, at) \
                        SELECT ?3, subject, '', ?4 FROM ({holding}) WHERE true ON CONFLICT DO NOTHING"
                );
                tx.execute(&sql, parameters![first, second, kind, At(rules.now)])?;
            }
            Ok(())
        })
        .await
    }

    async fn find_alert_changes(&self, rules: AlertRules) -> Result<AlertChanges, StoreError> {
        self.read(move |tx| {
            let mut changes = AlertChanges::default();
            for kind in STORED_KINDS {
                find(tx, kind, &rules, &mut changes)?;
            }
            let sql = "SELECT DISTINCT subject FROM alerts \
                WHERE kind = ? AND subject NOT IN (SELECT name FROM upstreams) LIMIT ?";
            let kind = AlertKind::UpstreamDown;
            read_ended(tx, kind, sql, parameters![kind, MAX_FOUND], &mut changes.ended)?;
            Ok(changes)
        })
        .await
    }

    async fn raise_alert(&self, alert: &AlertId, at: Timestamp) -> Result<bool, StoreError> {
        let AlertId { kind, subject } = alert.clone();
        self.write(move |tx| {
            let sql = "INSERT INTO alerts (kind, subject, node, at) VALUES (?, ?, '', ?) \
                ON CONFLICT DO NOTHING";
            Ok(tx.execute(sql, parameters![kind, subject, At(at)])? > 0)
        })
        .await
    }

    async fn clear_alert(&self, alert: &AlertId) -> Result<bool, StoreError> {
        let AlertId { kind, subject } = alert.clone();
        self.write(move |tx| {
            let sql = "DELETE FROM alerts WHERE kind = ? AND subject = ?";
            Ok(tx.execute(sql, parameters![kind, subject])? > 0)
        })
        .await
    }
}

/// Returns the query for the conditions of a kind that hold, and its two parameters. One that is silent is not reported
/// when it begins, but has not ended either: a closed account keeps its balance and may be resumed.
fn holding(kind: AlertKind, rules: &AlertRules) -> (&'static str, [i64; 2]) {
    match kind {
        AlertKind::BalanceLow => (
            "SELECT lower(hex(b.account)) AS subject, b.account AS account, NULL AS key, \
                b.amount AS amount, ?1 AS bound, a.ended IS NOT NULL AS is_silent \
                FROM balances b JOIN accounts a ON a.id = b.account \
                WHERE b.amount < ?1 AND (a.ended IS NULL OR a.ended = 'closed') AND ?2 IS NOT NULL",
            [rules.balance_below.0, 0],
        ),
        // As floating-point numbers, because the sum of integers can overflow, which is an error.
        AlertKind::SpendCapNear => (
            "SELECT k.origin AS subject, k.account AS account, k.id AS key, \
                CAST(used.spent AS INTEGER) AS amount, k.spend_cap AS bound, false AS is_silent FROM keys k \
                JOIN (SELECT origin, sum(spent * 1.0) AS spent FROM keys WHERE spent > 0 \
                    GROUP BY origin) AS used ON used.origin = k.origin \
                WHERE k.revoked_at IS NULL AND k.successor IS NULL \
                AND used.spent * ?1 >= k.spend_cap * 1.0 * ?2",
            [100, SPEND_CAP_PERCENT],
        ),
        AlertKind::KeyExpiring => (
            "SELECT id AS subject, account, id AS key, expires_at AS amount, NULL AS bound, \
                false AS is_silent FROM keys \
                WHERE expires_at > ?1 AND expires_at <= ?2 AND revoked_at IS NULL \
                AND successor IS NULL",
            [rules.now.as_microsecond(), rules.expiring_until.as_microsecond()],
        ),
        AlertKind::UpstreamDown => {
            unreachable!("a database does not know which upstreams are down")
        }
    }
}

fn find(
    tx: &Connection,
    kind: AlertKind,
    rules: &AlertRules,
    changes: &mut AlertChanges,
) -> Result<(), StoreError> {
    let (holding, [first, second]) = holding(kind, rules);
    let values = parameters![first, second, kind, MAX_FOUND];
    let sql = format!(
        "SELECT * FROM ({holding}) WHERE NOT is_silent \
            AND subject NOT IN (SELECT subject FROM alerts WHERE kind = ?3) {FAIR_ORDER} LIMIT ?4"
    );
    let mut select = tx.prepare_cached(&sql)?;
    let mut rows = select.query(values)?;
    while let Some(row) = rows.next()? {
        changes.begun.extend(alert(kind, row)?);
    }
    let sql = format!(
        "SELECT subject FROM alerts WHERE kind = ?3 AND subject NOT IN (SELECT subject FROM ({holding})) LIMIT ?4"
    );
    read_ended(tx, kind, &sql, values, &mut changes.ended)
}

fn read_ended(
    tx: &Connection,
    kind: AlertKind,
    sql: &str,
    values: &[&dyn ToSql],
    ended: &mut Vec<AlertId>,
) -> Result<(), StoreError> {
    let mut select = tx.prepare_cached(sql)?;
    let mut rows = select.query(values)?;
    while let Some(row) = rows.next()? {
        ended.push(AlertId { kind, subject: row.column(0)? });
    }
    Ok(())
}
