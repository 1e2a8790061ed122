//! Stored responses: single ones, chains, and their items.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use super::codec::{ReadColumn, parameters};
use crate::codec::{At, Count};
use crate::records::{self, RESPONSE};
use crate::{Responses, StoreError};
use domain::id::{AccountId, RequestId};
use domain::response::{FoundItems, StoredResponse, Turn};

#[async_trait]
impl Responses for SqliteStore {
    async fn keep_responses(
        &self,
        responses: Vec<StoredResponse>,
        account_bytes: u64,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            for response in &responses {
                insert(tx, response)?;
                shrink(tx, response, account_bytes)?;
            }
            Ok(())
        })
        .await
    }

    async fn find_response(
        &self,
        account: AccountId,
        id: RequestId,
    ) -> Result<Option<StoredResponse>, StoreError> {
        self.read(move |tx| Ok(find(tx, account, id)?)).await
    }

    async fn response_chain(
        &self,
        account: AccountId,
        last: RequestId,
        max_bytes: u64,
    ) -> Result<Vec<Turn>, StoreError> {
        self.read(move |tx| {
            let (mut chain, mut bytes, mut next) = (Vec::new(), 0, Some(last));
            while let Some(id) = next
                && bytes <= max_bytes
                && let Some(response) = load(tx, account, id)?
            {
                let turn = response.turn();
                next = turn.previous;
                bytes += turn.bytes();
                chain.push(turn);
            }
            chain.reverse();
            Ok(chain)
        })
        .await
    }

    async fn find_items(
        &self,
        account: AccountId,
        ids: HashSet<String>,
        max_bytes: u64,
    ) -> Result<FoundItems, StoreError> {
        self.read(move |tx| {
            // The greatest id is the newest: the ids are UUIDv7.
            let sql = "SELECT max(response) FROM response_items WHERE account = ? AND item = ?";
            let mut select = tx.prepare_cached(sql)?;
            let mut wanted = BTreeMap::<RequestId, HashSet<String>>::new();
            for id in ids {
                let newest: Option<RequestId> =
                    select.query_row(parameters![account, id], |row| row.column(0))?;
                if let Some(response) = newest {
                    wanted.entry(response).or_default().insert(id);
                }
            }
            let mut found = FoundItems::default();
            for (response, wanted) in wanted.into_iter().rev() {
                if found.bytes() > max_bytes {
                    break;
                }
                if let Some(response) = load(tx, account, response)? {
                    found.take(&response, &wanted);
                }
            }
            Ok(found)
        })
        .await
    }

    async fn responses_after(
        &self,
        account: AccountId,
        after: Option<RequestId>,
        limit: u32,
    ) -> Result<Vec<StoredResponse>, StoreError> {
        self.read(move |tx| {
            let sql = format!(
                "SELECT {RESPONSE} FROM responses WHERE id IN (SELECT id FROM responses \
                 WHERE account = ?1 AND (?2 IS NULL OR id > ?2) ORDER BY id LIMIT ?3) ORDER BY id"
            );
            let mut select = tx.prepare_cached(&sql)?;
            let rows = select
                .query_map(parameters![account, after, limit], |row| records::response(row))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn remove_response(&self, account: AccountId, id: RequestId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let sql = "DELETE FROM responses WHERE account = ? AND id = ?";
            match tx.prepare_cached(sql)?.execute(parameters![account, id])? {
                0 => Err(StoreError::NotFound),
                _ => Ok(()),
            }
        })
        .await
    }

    async fn delete_old_responses(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        // This scans a whole index, so a reader does it; the writer checks the result again. No
        // condition on the account is needed: whatever the conversation, only responses from
        // before the given time are deleted.
        let ended: Vec<RequestId> = self
            .read(move |tx| {
                let sql = "SELECT conversation FROM responses GROUP BY conversation \
                    HAVING max(created_at) < ? LIMIT ?";
                let mut select = tx.prepare_cached(sql)?;
                let rows = select.query_map(parameters![At(before), limit], |row| row.column(0))?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await?;
        if ended.is_empty() {
            return Ok(0);
        }
        self.write(move |tx| {
            let sql = "DELETE FROM responses WHERE id IN (SELECT id FROM responses \
                WHERE conversation = ?1 AND NOT EXISTS (SELECT 1 FROM responses \
                WHERE conversation = ?1 AND created_at >= ?2) ORDER BY created_at LIMIT ?3)";
            let mut delete = tx.prepare_cached(sql)?;
            let mut left = limit;
            for conversation in ended {
                if left == 0 {
                    break;
                }
                let gone = delete.execute(parameters![conversation, At(before), left])?;
                left = left.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
            }
            Ok(limit - left)
        })
        .await
    }
}

/// Adds a response, unless it exists.
fn insert(tx: &Connection, response: &StoredResponse) -> Result<(), StoreError> {
    let sql = "INSERT INTO responses VALUES (?1, ?2, ?3, \
        coalesce((SELECT conversation FROM responses WHERE id = ?3 AND account = ?2), ?1), ?4, ?5, ?6, ?7) \
        ON CONFLICT DO NOTHING";
    let written = tx.prepare_cached(sql)?.execute(parameters![
        response.id,
        response.account,
        response.previous,
        At(response.created_at),
        Count(response.bytes()),
        &*response.input,
        &*response.object,
    ])?;
    if written > 0 {
        let sql = "INSERT INTO response_items VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
        let mut insert = tx.prepare_cached(sql)?;
        for item in &response.items {
            insert.execute(parameters![response.account, item, response.id])?;
        }
    }
    Ok(())
}

/// Makes room in the account of a response that was just stored.
fn shrink(tx: &Connection, kept: &StoredResponse, account_bytes: u64) -> Result<(), StoreError> {
    let mut sum = tx.prepare_cached("SELECT bytes FROM response_bytes WHERE account = ?")?;
    let stored =
        sum.query_row(parameters![kept.account], |row| row.column::<Count>(0)).optional()?;
    let excess = stored.map_or(0, |count| count.0).saturating_sub(account_bytes);
    if excess == 0 {
        return Ok(());
    }
    // In the order of time, the first response that no other of its conversation follows is the end
    // of the conversation that ended first. Each condition names the account, because older
    // versions could put responses of several accounts into one conversation.
    let others = "SELECT conversation, (SELECT sum(bytes) FROM responses AS part \
        WHERE part.conversation = last.conversation AND part.account = ?1) \
        FROM responses AS last WHERE account = ?1 \
        AND conversation <> (SELECT conversation FROM responses WHERE id = ?2 AND account = ?1) \
        AND NOT EXISTS (SELECT 1 FROM responses AS later \
        WHERE later.conversation = last.conversation AND later.account = ?1 \
        AND (later.created_at, later.id) > (last.created_at, last.id)) ORDER BY created_at, id";
    let (evicted, excess) = choose(tx, others, kept, excess)?;
    let sql = "DELETE FROM responses WHERE conversation = ? AND account = ?";
    let mut delete = tx.prepare_cached(sql)?;
    for conversation in evicted {
        delete.execute(parameters![conversation, kept.account])?;
    }

    // One conversation can exceed the limit by itself, especially if it branches.
    let own = "SELECT id, bytes FROM responses WHERE account = ?1 AND id <> ?2 \
        ORDER BY created_at, id";
    let (evicted, _) = choose(tx, own, kept, excess)?;
    let mut delete = tx.prepare_cached("DELETE FROM responses WHERE id = ? AND account = ?")?;
    for id in evicted {
        delete.execute(parameters![id, kept.account])?;
    }
    Ok(())
}

/// Selects rows of `sql` (ids and bytes) until the excess is covered; returns the rest of the
/// excess.
fn choose(
    tx: &Connection,
    sql: &str,
    kept: &StoredResponse,
    mut excess: u64,
) -> Result<(Vec<RequestId>, u64), StoreError> {
    let mut evicted = Vec::new();
    if excess > 0 {
        let mut select = tx.prepare_cached(sql)?;
        let mut rows = select.query(parameters![kept.account, kept.id])?;
        while excess > 0
            && let Some(row) = rows.next()?
        {
            evicted.push(row.column(0)?);
            excess = excess.saturating_sub(row.column::<Count>(1)?.0);
        }
    }
    Ok((evicted, excess))
}

fn find(
    tx: &Connection,
    account: AccountId,
    id: RequestId,
) -> rusqlite::Result<Option<StoredResponse>> {
    let Some(mut response) = load(tx, account, id)? else { return Ok(None) };
    let mut items = tx.prepare_cached("SELECT item FROM response_items WHERE response = ?")?;
    response.items =
        items.query_map(parameters![id], |row| row.column(0))?.collect::<Result<_, _>>()?;
    Ok(Some(response))
}

/// Reads a response without the list of its items' ids.
fn load(
    tx: &Connection,
    account: AccountId,
    id: RequestId,
) -> rusqlite::Result<Option<StoredResponse>> {
    let mut select = tx.prepare_cached(&format!(
        "SELECT {RESPONSE} FROM responses WHERE account = ? AND id = ?"
    ))?;
    select.query_row(parameters![account, id], |row| records::response(row)).optional()
}
