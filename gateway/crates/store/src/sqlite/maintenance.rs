//! Maintenance of the database, in particular the deletion of old request records in small
//! transactions.
//!
//! The file is never vacuumed: new records reuse freed pages.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{ReadColumn, parameters};
use super::{SqliteStore, commit, copy, filter, integrity, spans, sums};
use crate::codec::At;
use crate::maintenance::{RetentionTime, TRUSTED_TIME, UNCONFIRMED_TIME, UnconfirmedTime};
use crate::records::{self, REQUEST};
use crate::{Cursor, RetentionCutoff, StoreCopy, StoreError, StoreMaintenance};
use domain::id::KeyId;
use domain::record::RequestRecord;

#[async_trait]
impl StoreMaintenance for SqliteStore {
    fn check_copyable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn copy(&self) -> Result<StoreCopy, StoreError> {
        let path = self.background_reads.path().to_owned();
        self.background_reads.run(move |source, cancel| copy::copy(source, &path, cancel)).await
    }

    async fn check_integrity(&self, at: Timestamp) -> Result<Vec<String>, StoreError> {
        self.write(move |tx| integrity::record_check(tx, at)).await?;
        self.background_reads.run(integrity::quick_check).await
    }

    async fn database_bytes(&self) -> Result<u64, StoreError> {
        let main = self.background_reads.path();
        let mut log = main.as_os_str().to_owned();
        log.push("-wal");
        let bytes = |file: &Path| std::fs::metadata(file).map_or(0, |file| file.len());
        Ok(bytes(main) + bytes(log.as_ref()))
    }

    async fn retention_time(&self) -> Result<Option<RetentionTime>, StoreError> {
        self.read(|tx| {
            let mut select = tx.prepare_cached("SELECT value FROM meta WHERE name = ?")?;
            let mut find = |name: &str| -> rusqlite::Result<Option<String>> {
                select.query_row(parameters![name], |row| row.column(0)).optional()
            };
            let (trusted, unconfirmed) = (find(TRUSTED_TIME)?, find(UNCONFIRMED_TIME)?);
            let unconfirmed = unconfirmed.and_then(|text| UnconfirmedTime::decode(&text));
            let trusted = trusted.and_then(|text| text.parse().ok());
            Ok(trusted.map(|trusted| RetentionTime { trusted, unconfirmed }))
        })
        .await
    }

    async fn set_retention_time(&self, time: RetentionTime) -> Result<(), StoreError> {
        self.write(move |tx| {
            let sql = "INSERT INTO meta (name, value) VALUES (?, ?) \
                ON CONFLICT DO UPDATE SET value = excluded.value";
            let mut set = tx.prepare_cached(sql)?;
            set.execute(parameters![TRUSTED_TIME, time.trusted.to_string()])?;
            if let Some(unconfirmed) = time.unconfirmed {
                set.execute(parameters![UNCONFIRMED_TIME, unconfirmed.encode()])?;
            } else {
                let sql = "DELETE FROM meta WHERE name = ?";
                tx.prepare_cached(sql)?.execute(parameters![UNCONFIRMED_TIME])?;
            }
            Ok(())
        })
        .await
    }

    async fn delete_unused_keys(
        &self,
        revoked_before: Timestamp,
        limit: usize,
    ) -> Result<u64, StoreError> {
        let found = move |tx: &Connection| -> Result<Vec<KeyId>, StoreError> {
            let sql = "SELECT id FROM keys WHERE revoked_at < ? AND last_used_at IS NULL \
                LIMIT ?";
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut select = tx.prepare_cached(sql)?;
            let rows =
                select.query_map(parameters![At(revoked_before), limit], |row| row.column(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        // Avoids a write transaction without changes.
        if self.read(move |tx| found(tx)).await?.is_empty() {
            return Ok(0);
        }
        self.write(move |tx| {
            // Found again: a request may have used one since.
            let unused = found(tx)?;
            let mut delete = tx.prepare_cached("DELETE FROM keys WHERE id = ?")?;
            for key in &unused {
                delete.execute(parameters![key])?;
            }
            Ok(unused.len() as u64)
        })
        .await
    }

    async fn prepare_days(&self, _: Option<Duration>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_old_days(&self, _: RetentionCutoff) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn delete_old_requests(
        &self,
        cutoff: RetentionCutoff,
        limit: usize,
    ) -> Result<u64, StoreError> {
        // Avoids a write transaction without changes.
        if self.read(move |tx| oldest(tx, &cutoff, 1)).await?.is_empty() {
            return Ok(0);
        }
        self.write(move |tx| delete_oldest(tx, &cutoff, limit)).await
    }
}

fn delete_oldest(
    tx: &Connection,
    cutoff: &RetentionCutoff,
    limit: usize,
) -> Result<u64, StoreError> {
    let old = oldest(tx, cutoff, limit)?;
    let Some((last, _)) = old.last() else { return Ok(0) };
    sums::add_deleted(tx, old.iter().map(|(_, record)| record))?;
    tx.prepare_cached("DELETE FROM requests WHERE seq <= ?")?.execute(parameters![last.0])?;
    filter::shorten_hours(tx, last.0 + 1)?;
    let accounts: BTreeSet<_> = old.iter().map(|(_, record)| record.account).collect();
    for account in accounts {
        spans::REQUEST_SPANS.delete_before(tx, account, last.0 + 1)?;
    }
    Ok(old.len() as u64)
}

/// Returns up to `limit` of the oldest records that may be deleted, with those of a clock that was wrong between them.
fn oldest(
    tx: &Connection,
    cutoff: &RetentionCutoff,
    limit: usize,
) -> Result<Vec<(Cursor, RequestRecord)>, StoreError> {
    let newest = commit::newest(tx)?;
    let mut select = tx.prepare_cached(&format!(
        "SELECT {REQUEST} FROM requests WHERE seq < ? AND started_at <= ? ORDER BY seq LIMIT ?"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters = parameters![newest.0, At(cutoff.ahead()), limit];
    let mut last = None;
    for row in select.query_map(parameters, |row| records::request(row))? {
        let (cursor, record) = row?;
        if !cutoff.selects(cursor, &record, newest) {
            break;
        }
        last = Some(cursor);
    }
    let Some(last) = last else { return Ok(Vec::new()) };
    let sql = format!("SELECT {REQUEST} FROM requests WHERE seq <= ? ORDER BY seq LIMIT ?");
    let mut select = tx.prepare_cached(&sql)?;
    let rows = select.query_map(parameters![last.0, limit], |row| records::request(row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
