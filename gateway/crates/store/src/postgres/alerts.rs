//! Which conditions operators were notified of.

use async_trait::async_trait;
use jiff::Timestamp;

use super::PostgresStore;
use super::codec::{AnyParameter, ReadColumn, parameters};
use super::transaction::Transaction;
use crate::alerts::{FAIR_ORDER, MAX_FOUND, RECORDED_SINCE, STORED_KINDS, alert};
use crate::codec::At;
use crate::{Alerts, StoreError};
use domain::alert::{AlertChanges, AlertId, AlertKind, AlertRules, SPEND_CAP_PERCENT};

/// The advisory lock of changes of recorded conditions.
const ALERTS_LOCK: i64 = 0x746f_6c6c_0000_0003;

/// A row of another gateway that is alive.
const OTHERS: &str = "SELECT FROM alerts JOIN nodes ON nodes.id::text = alerts.node \
    WHERE kind = $1 AND subject = $2 AND node <> $3 AND removed_at IS NULL AND NOT stopped \
    AND heard_at > now() - patience * interval '1 microsecond' LIMIT 1";

#[async_trait]
impl Alerts for PostgresStore {
    async fn record_old_alerts(&self, rules: AlertRules) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        let values = parameters![RECORDED_SINCE, rules.now.to_string()];
        if tx.execute(sql, values).await? == 0 {
            return Ok(());
        }
        for kind in STORED_KINDS {
            let (holding, [first, second]) = holding(kind, &rules);
            let sql = format!(
                "INSERT INTO alerts (kind, subject, node, at) SELECT $3, subject, '', $4 \
                    FROM ({holding}) holding ON CONFLICT DO NOTHING"
            );
            tx.execute(&sql, parameters![first, second, kind, At(rules.now)]).await?;
        }
        tx.commit().await
    }

    async fn find_alert_changes(&self, rules: AlertRules) -> Result<AlertChanges, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let mut changes = AlertChanges::default();
        let sql = "SELECT pg_try_advisory_xact_lock($1)";
        if !tx.query_one("the lock", sql, parameters![ALERTS_LOCK]).await?.column(0)? {
            return Ok(changes);
        }
        for kind in STORED_KINDS {
            let (holding, [first, second]) = holding(kind, &rules);
            let values = parameters![first, second, kind, MAX_FOUND];
            let sql = format!(
                "SELECT * FROM ({holding}) holding WHERE NOT is_silent \
                    AND subject NOT IN (SELECT subject FROM alerts WHERE kind = $3) {FAIR_ORDER} LIMIT $4"
            );
            for row in tx.query(&sql, values).await? {
                changes.begun.extend(alert(kind, &row)?);
            }
            let sql = format!(
                "SELECT subject FROM alerts WHERE kind = $3 \
                    AND subject NOT IN (SELECT subject FROM ({holding}) holding) LIMIT $4"
            );
            read_ended(&tx, kind, &sql, values, &mut changes.ended).await?;
        }
        let sql = "SELECT DISTINCT subject FROM alerts \
            WHERE kind = $1 AND subject NOT IN (SELECT name FROM upstreams) LIMIT $2";
        let kind = AlertKind::UpstreamDown;
        read_ended(&tx, kind, sql, parameters![kind, MAX_FOUND], &mut changes.ended).await?;
        Ok(changes)
    }

    async fn raise_alert(&self, alert: &AlertId, at: Timestamp) -> Result<bool, StoreError> {
        let (kind, subject, node) = (alert.kind, &alert.subject, self.node_of(alert.kind));
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        lock(&tx).await?;
        let sql = "INSERT INTO alerts (kind, subject, node, at) VALUES ($1, $2, $3, $4) \
            ON CONFLICT DO NOTHING";
        let is_own = tx.execute(sql, parameters![kind, subject, node, At(at)]).await? > 0;
        let has_others = tx.query_opt(OTHERS, parameters![kind, subject, node]).await?.is_some();
        tx.commit().await?;
        Ok(is_own && !has_others)
    }

    async fn clear_alert(&self, alert: &AlertId) -> Result<bool, StoreError> {
        let (kind, subject, node) = (alert.kind, &alert.subject, self.node_of(alert.kind));
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        lock(&tx).await?;
        let sql = "DELETE FROM alerts WHERE kind = $1 AND subject = $2 AND node = $3";
        let was_own = tx.execute(sql, parameters![kind, subject, node]).await? > 0;
        let has_others = tx.query_opt(OTHERS, parameters![kind, subject, node]).await?.is_some();
        // The rows of an upstream that was removed, by gateways that have ended.
        let sql = "DELETE FROM alerts WHERE kind = $1 AND subject = $2 AND kind = 'upstream_down' \
            AND subject NOT IN (SELECT name FROM upstreams)";
        tx.execute(sql, parameters![kind, subject]).await?;
        tx.commit().await?;
        Ok(was_own && !has_others)
    }
}

impl PostgresStore {
    /// Returns the node in the rows of a kind of conditions.
    fn node_of(&self, kind: AlertKind) -> String {
        match kind {
            AlertKind::UpstreamDown => self.epoch.id.0.to_string(),
            AlertKind::BalanceLow | AlertKind::SpendCapNear | AlertKind::KeyExpiring => {
                String::new()
            }
        }
    }
}

async fn lock(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.execute("SELECT pg_advisory_xact_lock($1)", parameters![ALERTS_LOCK]).await.map(drop)
}

/// Returns the query for the conditions of a kind that hold, and its two parameters. One that is silent is not reported
/// when it begins, but has not ended either: a closed account keeps its balance and may be resumed.
fn holding(kind: AlertKind, rules: &AlertRules) -> (&'static str, [i64; 2]) {
    match kind {
        AlertKind::BalanceLow => (
            "SELECT replace(b.account::text, '-', '') AS subject, b.account, NULL::text AS key, \
                b.amount, $1::bigint AS bound, a.ended IS NOT NULL AS is_silent \
                FROM balances b JOIN accounts a ON a.id = b.account WHERE b.amount < $1::bigint \
                AND (a.ended IS NULL OR a.ended = 'closed') AND $2::bigint IS NOT NULL",
            [rules.balance_below.0, 0],
        ),
        AlertKind::SpendCapNear => (
            "SELECT k.origin AS subject, k.account, k.id AS key, saturated(used.spent) AS amount, \
                k.spend_cap AS bound, false AS is_silent FROM keys k CROSS JOIN LATERAL ( \
                    SELECT sum(cost) AS spent FROM keys o JOIN key_days d ON d.key = o.id \
                    WHERE o.origin = k.origin) used \
                WHERE k.spend_cap IS NOT NULL AND k.revoked_at IS NULL AND k.successor IS NULL \
                AND used.spent > 0 AND used.spent * $1::bigint >= k.spend_cap::numeric * $2::bigint",
            [100, SPEND_CAP_PERCENT],
        ),
        AlertKind::KeyExpiring => (
            "SELECT id AS subject, account, id AS key, expires_at AS amount, NULL::bigint AS bound, \
                false AS is_silent FROM keys WHERE expires_at > $1 AND expires_at <= $2 AND revoked_at IS NULL \
                AND successor IS NULL",
            [rules.now.as_microsecond(), rules.expiring_until.as_microsecond()],
        ),
        AlertKind::UpstreamDown => {
            unreachable!("a database does not know which upstreams are down")
        }
    }
}

async fn read_ended(
    tx: &Transaction<'_>,
    kind: AlertKind,
    sql: &str,
    values: &[AnyParameter<'_>],
    ended: &mut Vec<AlertId>,
) -> Result<(), StoreError> {
    for row in tx.query(sql, values).await? {
        ended.push(AlertId { kind, subject: row.column(0)? });
    }
    Ok(())
}
