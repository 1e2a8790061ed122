//! Reports of the traffic of each gateway process, a row for each minute.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use foldhash::fast::RandomState;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::PostgresStore;
use super::codec::{ReadColumn, arrays, parameters};
use super::transaction::OPERATION_LIMIT;
use crate::StoreError;
use crate::codec::{At, Micros};
use crate::traffic::TrafficReports;
use domain::id::AccountId;
use domain::traffic::{MinuteReport, NodeProcess, ReportedMinute, ReportedTraffic};

/// The silence after which a process does not count as serving.
const SILENCE: Duration = Duration::from_secs(5);

#[async_trait]
impl TrafficReports for PostgresStore {
    async fn report_traffic(&self, reports: &[MinuteReport]) -> Result<(), StoreError> {
        let sql = "INSERT INTO traffic_minutes AS stored \
            (node, epoch, started_at, written_at, total, accounts) \
            SELECT $1, $2, started_at, now(), total::jsonb, accounts::jsonb \
            FROM unnest($3::bigint[], $4::text[], $5::text[]) AS made (started_at, total, accounts) \
            ON CONFLICT (node, epoch, started_at) DO UPDATE SET (written_at, total, accounts) \
            = (excluded.written_at, excluded.total, excluded.accounts)";
        let rows: Vec<_> = reports.iter().map(encode).collect();
        let old = "DELETE FROM traffic_minutes WHERE (node, epoch, started_at) IN \
            (SELECT node, epoch, started_at FROM traffic_minutes \
            WHERE written_at < now() - interval '61 minutes' FOR UPDATE SKIP LOCKED)";
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            // Not fenced: the rows of a process are its own.
            let tx = connection.begin_unfenced().await?;
            let columns = arrays!(rows, |row| row.0, row.1.as_str(), row.2.as_str());
            let process = parameters![self.epoch.id, self.epoch.epoch];
            tx.execute(sql, &[process, columns].concat()).await?;
            // Once a minute: then the previous one is stored again, for the last time.
            if reports.len() > 1 {
                tx.execute(old, &[]).await?;
            }
            tx.commit().await
        })
        .await;
        connection.check_time(outcome)
    }

    async fn reported_traffic(
        &self,
        account: Option<AccountId>,
        since: Duration,
    ) -> Result<ReportedTraffic, StoreError> {
        let minutes = "SELECT node, epoch, started_at, \
            (CASE WHEN $3::text IS NULL THEN total ELSE accounts -> $3 END)::text \
            FROM traffic_minutes WHERE (node, epoch) <> ($1, $2) \
            AND written_at >= now() - $4::bigint * interval '1 microsecond' \
            AND ($3 IS NULL OR accounts ? $3)";
        let serving = "SELECT id, epoch FROM nodes WHERE removed_at IS NULL AND NOT stopped \
            AND now() - heard_at <= $1::bigint * interval '1 microsecond'";
        let mut connection = self.connection().await?;
        let outcome = timeout(OPERATION_LIMIT, async {
            let tx = connection.view().await?;
            let account = account.map(|account| account.0.to_string());
            let (id, epoch) = (self.epoch.id, self.epoch.epoch);
            let values = parameters![id, epoch, account.as_ref(), Micros(since)];
            let minutes = tx.query(minutes, values).await?;
            let serving = tx.query(serving, parameters![Micros(SILENCE)]).await?;
            Ok((minutes, serving))
        })
        .await;
        let (minutes, serving) = connection.check_time(outcome)?;
        let process = |row: &tokio_postgres::Row| {
            Ok::<_, StoreError>(NodeProcess { node: row.column(0)?, epoch: row.column(1)? })
        };
        let minute = |row: &tokio_postgres::Row| {
            Ok(ReportedMinute {
                process: process(row)?,
                started_at: row.column::<At>(2)?.0,
                figures: decode(&row.column::<String>(3)?)?,
            })
        };
        Ok(ReportedTraffic {
            minutes: minutes.iter().map(minute).collect::<Result<_, StoreError>>()?,
            serving: serving.iter().map(process).collect::<Result<_, StoreError>>()?,
        })
    }
}

/// Returns the start of a minute, the total and the figures by account.
fn encode(report: &MinuteReport) -> (At, String, String) {
    let accounts: HashMap<_, _, RandomState> =
        report.accounts.iter().map(|(account, figures)| (account.0.to_string(), figures)).collect();
    (At(report.started_at), json(&report.total), json(&accounts))
}

fn json(figures: &impl Serialize) -> String {
    // Structures of numbers and texts can always be encoded. A text of PostgreSQL has no NUL characters.
    serde_json::to_string(figures).unwrap_or_default().replace("\\u0000", "\\ufffd")
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Unavailable(error.into()))
}
