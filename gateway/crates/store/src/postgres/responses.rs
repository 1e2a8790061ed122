//! Stored responses: single ones, chains, and their items.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use jiff::Timestamp;

use super::PostgresStore;
use super::codec::{Parameter, ReadColumn, arrays, parameters};
use super::error::expect_changed;
use super::transaction::Transaction;
use crate::codec::{At, Count};
use crate::records::{self, RESPONSE};
use crate::{Responses, StoreError};
use domain::id::{AccountId, RequestId};
use domain::response::{FoundItems, StoredResponse, Turn};

/// The number of rows per step in which an account is brought below its limit.
const EVICTED_AT_ONCE: u32 = 64;

#[async_trait]
impl Responses for PostgresStore {
    async fn keep_responses(
        &self,
        responses: Vec<StoredResponse>,
        account_bytes: u64,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        for response in &responses {
            insert(&tx, response).await?;
            shrink(&tx, response, account_bytes).await?;
        }
        tx.commit().await
    }

    async fn find_response(
        &self,
        account: AccountId,
        id: RequestId,
    ) -> Result<Option<StoredResponse>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let Some(mut response) = load(&tx, account, id).await? else { return Ok(None) };
        let sql = "SELECT item FROM response_items WHERE account = $1 AND response = $2 \
            ORDER BY item COLLATE \"C\"";
        let items = tx.query(sql, parameters![account, id]).await?;
        response.items = items.iter().map(|row| row.column(0)).collect::<Result<_, _>>()?;
        Ok(Some(response))
    }

    async fn response_chain(
        &self,
        account: AccountId,
        last: RequestId,
        max_bytes: u64,
    ) -> Result<Vec<Turn>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let (mut chain, mut bytes, mut next) = (Vec::new(), 0, Some(last));
        while let Some(id) = next
            && bytes <= max_bytes
            && let Some(response) = load(&tx, account, id).await?
        {
            let turn = response.turn();
            next = turn.previous;
            bytes += turn.bytes();
            chain.push(turn);
        }
        chain.reverse();
        Ok(chain)
    }

    async fn find_items(
        &self,
        account: AccountId,
        ids: HashSet<String>,
        max_bytes: u64,
    ) -> Result<FoundItems, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        // The greatest id is the newest: the ids are UUIDv7.
        let sql = "SELECT DISTINCT ON (item) item, response FROM response_items \
            JOIN unnest($2::text[]) AS wanted (id) ON md5(item) = md5(wanted.id) AND item = wanted.id \
            WHERE account = $1 ORDER BY item, response DESC";
        let ids: Vec<_> = ids.into_iter().map(Parameter).collect();
        let mut wanted = BTreeMap::<RequestId, HashSet<String>>::new();
        for row in tx.query(sql, &[&Parameter(account), &ids]).await? {
            wanted.entry(row.column(1)?).or_default().insert(row.column(0)?);
        }
        let mut found = FoundItems::default();
        for (response, wanted) in wanted.into_iter().rev() {
            if found.bytes() > max_bytes {
                break;
            }
            if let Some(response) = load(&tx, account, response).await? {
                found.take(&response, &wanted);
            }
        }
        Ok(found)
    }

    async fn responses_after(
        &self,
        account: AccountId,
        after: Option<RequestId>,
        limit: u32,
    ) -> Result<Vec<StoredResponse>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = format!(
            "SELECT {RESPONSE} FROM responses WHERE account = $1 AND ($2::uuid IS NULL OR id > $2) \
             ORDER BY id LIMIT $3"
        );
        let rows = tx.query(&sql, parameters![account, after, limit_of(limit)]).await?;
        rows.iter().map(records::response).collect()
    }

    async fn remove_response(&self, account: AccountId, id: RequestId) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "DELETE FROM responses WHERE account = $1 AND id = $2";
        expect_changed(tx.execute(sql, parameters![account, id]).await?)?;
        tx.commit().await
    }

    async fn delete_old_responses(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let ended = "SELECT account, conversation FROM responses GROUP BY account, conversation \
            HAVING max(created_at) < $1 LIMIT $2";
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let ended = tx.query(ended, parameters![At(before), limit_of(limit)]).await?;
        drop(tx);
        if ended.is_empty() {
            return Ok(0);
        }
        let delete = "DELETE FROM responses WHERE (account, id) IN (SELECT account, id \
            FROM responses WHERE account = $1 AND conversation = $2 AND NOT EXISTS (SELECT \
            FROM responses WHERE account = $1 AND conversation = $2 AND created_at >= $3) \
            ORDER BY created_at, id LIMIT $4)";
        let tx = connection.begin(self.epoch).await?;
        if !tx.try_claim_retention().await? {
            return Ok(0);
        }
        let mut left = limit;
        for row in ended {
            let (account, conversation): (AccountId, RequestId) = (row.column(0)?, row.column(1)?);
            let values = parameters![account, conversation, At(before), limit_of(left)];
            let gone = tx.execute(delete, values).await?;
            left = left.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
        }
        tx.commit().await?;
        Ok(limit - left)
    }
}

fn limit_of(rows: u32) -> i64 {
    rows.into()
}

/// Adds a response, unless it exists.
async fn insert(tx: &Transaction<'_>, response: &StoredResponse) -> Result<(), StoreError> {
    let sql = "INSERT INTO responses \
        (account, id, previous, conversation, created_at, bytes, input, object) \
        VALUES ($1, $2, $3, coalesce((SELECT conversation FROM responses \
        WHERE account = $1 AND id = $3), $2), $4, $5, $6, $7) ON CONFLICT DO NOTHING";
    let values = parameters![
        response.account,
        response.id,
        response.previous,
        At(response.created_at),
        Count(response.bytes()),
        &*response.input,
        &*response.object
    ];
    if tx.execute(sql, values).await? > 0 {
        let sql = "INSERT INTO response_items (account, item, response) \
            SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[]) ON CONFLICT DO NOTHING";
        let items: Vec<_> = response.items.iter().map(|item| (response, item)).collect();
        let values = arrays!(items, |row| row.0.account, row.1, row.0.id);
        tx.execute(sql, values).await?;
    }
    Ok(())
}

/// Makes room in the account of a response that was just stored.
async fn shrink(
    tx: &Transaction<'_>,
    kept: &StoredResponse,
    account_bytes: u64,
) -> Result<(), StoreError> {
    let sql = "SELECT bytes FROM response_bytes WHERE account = $1";
    let stored = tx.query_opt(sql, parameters![kept.account]).await?;
    let stored = stored.map_or(Ok(Count(0)), |row| row.column::<Count>(0))?;
    let excess = stored.0.saturating_sub(account_bytes);
    // The conversation that ended first is the first whose last response has no later one.
    let others = "SELECT conversation, (SELECT sum(bytes)::bigint FROM responses AS part \
        WHERE part.account = $1 AND part.conversation = last.conversation) \
        FROM responses AS last WHERE account = $1 \
        AND conversation <> (SELECT conversation FROM responses WHERE account = $1 AND id = $2) \
        AND NOT EXISTS (SELECT FROM responses AS later \
        WHERE later.account = $1 AND later.conversation = last.conversation \
        AND (later.created_at, later.id) > (last.created_at, last.id)) \
        ORDER BY created_at, id LIMIT $3";
    let delete = "DELETE FROM responses WHERE account = $1 AND conversation = ANY($2)";
    let excess = evict(tx, others, delete, kept, excess).await?;
    // One conversation can exceed the limit by itself, especially if it branches.
    let own = "SELECT id, bytes FROM responses WHERE account = $1 AND id <> $2 \
        ORDER BY created_at, id LIMIT $3";
    let delete = "DELETE FROM responses WHERE account = $1 AND id = ANY($2)";
    evict(tx, own, delete, kept, excess).await?;
    Ok(())
}

/// Deletes what `select` returns (ids and bytes) until the excess is covered; returns the rest of
/// the excess.
async fn evict(
    tx: &Transaction<'_>,
    select: &str,
    delete: &str,
    kept: &StoredResponse,
    mut excess: u64,
) -> Result<u64, StoreError> {
    while excess > 0 {
        let limit = limit_of(EVICTED_AT_ONCE);
        let found = tx.query(select, parameters![kept.account, kept.id, limit]).await?;
        let mut evicted = Vec::new();
        for row in &found {
            if excess == 0 {
                break;
            }
            evicted.push(Parameter(row.column::<RequestId>(0)?));
            excess = excess.saturating_sub(row.column::<Count>(1)?.0);
        }
        tx.execute(delete, &[&Parameter(kept.account), &evicted]).await?;
        if found.len() < EVICTED_AT_ONCE as usize {
            break;
        }
    }
    Ok(excess)
}

/// Reads a response without the list of its items' ids.
async fn load(
    tx: &Transaction<'_>,
    account: AccountId,
    id: RequestId,
) -> Result<Option<StoredResponse>, StoreError> {
    let sql = format!("SELECT {RESPONSE} FROM responses WHERE account = $1 AND id = $2");
    let row = tx.query_opt(&sql, parameters![account, id]).await?;
    row.as_ref().map(records::response).transpose()
}
