//! Maintenance of the database, in particular the deletion of single old request records in small
//! transactions. `partitions.rs` deletes those of whole days.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::audit::rows;
use super::codec::{ReadColumn, parameters};
use super::transaction::Transaction;
use super::{PostgresStore, partitions, sums};
use crate::codec::{At, Count};
use crate::maintenance::{RetentionTime, TRUSTED_TIME, UNCONFIRMED_TIME, UnconfirmedTime};
use crate::records::{self, REQUEST};
use crate::summary::DAY;
use crate::{Cursor, RetentionCutoff, StoreCopy, StoreError, StoreMaintenance};
use domain::record::RequestRecord;

/// A server has tools for copies, which also work without the gateway.
const NO_COPIES: StoreError = StoreError::Unsupported(
    "the gateway stores its data in PostgreSQL; back it up with PostgreSQL's own tools, such as `pg_dump` or \
     `pg_basebackup`",
);

#[async_trait]
impl StoreMaintenance for PostgresStore {
    fn check_copyable(&self) -> Result<(), StoreError> {
        Err(NO_COPIES)
    }

    async fn copy(&self) -> Result<StoreCopy, StoreError> {
        Err(NO_COPIES)
    }

    async fn check_integrity(&self, at: Timestamp) -> Result<Vec<String>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "INSERT INTO meta (name, value) VALUES ('examined_at', $1) \
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        tx.execute(sql, parameters![at.to_string()]).await?;
        // Zero, too, if the server keeps no checksums.
        let sql = "SELECT coalesce(sum(checksum_failures), 0)::bigint FROM pg_stat_database";
        let failures = tx.query_one("pg_stat_database", sql, &[]).await?.column::<Count>(0)?.0;
        tx.commit().await?;
        let finding = || format!("the server found {failures} pages with wrong checksums");
        Ok((failures > 0).then(finding).into_iter().collect())
    }

    async fn database_bytes(&self) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = "SELECT pg_database_size(current_database())";
        Ok(tx.query_one("pg_database", sql, &[]).await?.column::<Count>(0)?.0)
    }

    async fn retention_time(&self) -> Result<Option<RetentionTime>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let find = async |name: &str| -> Result<Option<String>, StoreError> {
            let sql = "SELECT value FROM meta WHERE name = $1";
            tx.query_opt(sql, parameters![name]).await?.map(|row| row.column(0)).transpose()
        };
        let (trusted, unconfirmed) = (find(TRUSTED_TIME).await?, find(UNCONFIRMED_TIME).await?);
        let unconfirmed = unconfirmed.and_then(|text| UnconfirmedTime::decode(&text));
        let trusted = trusted.and_then(|text| text.parse().ok());
        Ok(trusted.map(|trusted| RetentionTime { trusted, unconfirmed }))
    }

    async fn set_retention_time(&self, time: RetentionTime) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "INSERT INTO meta (name, value) VALUES ($1, $2) \
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        tx.execute(sql, parameters![TRUSTED_TIME, time.trusted.to_string()]).await?;
        if let Some(unconfirmed) = time.unconfirmed {
            tx.execute(sql, parameters![UNCONFIRMED_TIME, unconfirmed.encode()]).await?;
        } else {
            let sql = "DELETE FROM meta WHERE name = $1";
            tx.execute(sql, parameters![UNCONFIRMED_TIME]).await?;
        }
        tx.commit().await
    }

    async fn delete_unused_keys(
        &self,
        revoked_before: Timestamp,
        limit: usize,
    ) -> Result<u64, StoreError> {
        let condition = "revoked_at < $1 AND last_used_at IS NULL";
        let mut connection = self.connection().await?;
        // Avoids a write transaction without changes.
        let sql = format!("SELECT EXISTS (SELECT FROM keys WHERE {condition})");
        let view = connection.view().await?;
        if !view.query_one("keys", &sql, parameters![At(revoked_before)]).await?.column(0)? {
            return Ok(0);
        }
        drop(view);
        let tx = connection.begin(self.epoch).await?;
        if !tx.try_claim_retention().await? {
            return Ok(0);
        }
        let sql = format!(
            "DELETE FROM keys WHERE id IN (SELECT id FROM keys WHERE {condition} LIMIT $2)"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let deleted = tx.execute(&sql, parameters![At(revoked_before), limit]).await?;
        tx.commit().await?;
        Ok(deleted)
    }

    async fn prepare_days(&self, keep_for: Option<Duration>) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        // The time of the database, by which its gateways date requests.
        let sql = "SELECT floor(extract(epoch FROM now()) / 86400)::bigint";
        let today = connection.view().await?.query_one("now()", sql, &[]).await?.column(0)?;
        partitions::prepare(&mut connection, self.epoch, today, keep_for).await
    }

    async fn drop_old_days(&self, cutoff: RetentionCutoff) -> Result<u64, StoreError> {
        let dropped = partitions::drop_old(self, &cutoff, partitions::LOCK_TIMEOUT).await?;
        Ok(dropped.unwrap_or_default())
    }

    async fn delete_old_requests(
        &self,
        cutoff: RetentionCutoff,
        limit: usize,
    ) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let view = connection.view().await?;
        let first_day = partitions::first_dropped_day(&view, &cutoff).await?;
        let first_day = first_day.and_then(|day| Timestamp::from_microsecond(day * DAY).ok());
        let before = cutoff.before.map(|before| first_day.map_or(before, |day| before.min(day)));
        let cutoff = RetentionCutoff { before, ..cutoff };
        // Avoids a write transaction without changes.
        if oldest(&view, &cutoff, 1).await?.is_empty() {
            return Ok(0);
        }
        drop(view);
        let tx = connection.begin(self.epoch).await?;
        if !tx.try_claim_retention().await? {
            return Ok(0);
        }
        let old = oldest(&tx, &cutoff, limit).await?;
        if let Some((last, _)) = old.last() {
            let fresh: Vec<_> = old.iter().map(|(cursor, record)| (cursor.0, record)).collect();
            sums::add_deleted(&tx, &sums::by_key(&fresh)).await?;
            tx.execute("DELETE FROM requests WHERE seq <= $1", parameters![last.0]).await?;
        }
        tx.commit().await?;
        Ok(old.len() as u64)
    }
}

/// Returns up to `limit` of the oldest records that may be deleted, with those of a clock that was wrong between them.
async fn oldest(
    tx: &Transaction<'_>,
    cutoff: &RetentionCutoff,
    limit: usize,
) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
    let newest = tx.query_one("log_end", "SELECT seq FROM log_end", &[]).await?;
    let newest = Cursor(newest.column(0)?);
    let sql = format!(
        "SELECT {REQUEST} FROM requests WHERE seq < $1 AND started_at <= $2 ORDER BY seq LIMIT $3"
    );
    let found = tx.query(&sql, parameters![newest.0, At(cutoff.ahead()), rows(limit)]).await?;
    let mut last = None;
    for row in &found {
        let (cursor, record) = records::request(row)?;
        if !cutoff.selects(cursor, &record, newest) {
            break;
        }
        last = Some(cursor);
    }
    let Some(last) = last else { return Ok(Vec::new()) };
    let sql = format!("SELECT {REQUEST} FROM requests WHERE seq <= $1 ORDER BY seq LIMIT $2");
    let found = tx.query(&sql, parameters![last.0, rows(limit)]).await?;
    found.iter().map(records::request).collect()
}
