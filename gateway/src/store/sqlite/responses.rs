//! Stored responses: single ones, chains, and the items in them.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::codec::{At, Count};
use crate::domain::id::{AccountId, RequestId};
use crate::domain::response::StoredResponse;
use crate::store::{Responses, StoreError};

const SELECT: &str = "SELECT id, account, previous, created_at, input, object FROM responses";

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
                shrink(tx, response.account, account_bytes)?;
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
    ) -> Result<Vec<StoredResponse>, StoreError> {
        self.read(move |tx| {
            let (mut chain, mut bytes, mut next) = (Vec::new(), 0, Some(last));
            while let Some(id) = next
                && bytes <= max_bytes
                && let Some(response) = find(tx, account, id)?
            {
                next = response.previous;
                bytes += response.bytes();
                chain.push(response);
            }
            chain.reverse();
            Ok(chain)
        })
        .await
    }

    async fn responses_with_items(
        &self,
        account: AccountId,
        items: Vec<String>,
    ) -> Result<Vec<StoredResponse>, StoreError> {
        self.read(move |tx| {
            let sql = "SELECT max(response) FROM response_items WHERE account = ? AND item = ?";
            let mut select = tx.prepare_cached(sql)?;
            let mut ids = Vec::new();
            for item in items {
                let id: Option<RequestId> =
                    select.query_row(params![account, item], |row| row.get(0))?;
                ids.extend(id.filter(|id| !ids.contains(id)));
            }
            let found = ids.into_iter().filter_map(|id| find(tx, account, id).transpose());
            Ok(found.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn remove_response(&self, account: AccountId, id: RequestId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let sql = "DELETE FROM responses WHERE account = ? AND id = ?";
            match tx.prepare_cached(sql)?.execute(params![account, id])? {
                0 => Err(StoreError::NotFound),
                _ => Ok(()),
            }
        })
        .await
    }

    async fn forget_responses(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.write(move |tx| {
            let sql = "DELETE FROM responses WHERE created_at < ?1 AND NOT EXISTS (\
                SELECT 1 FROM responses AS later \
                WHERE later.conversation = responses.conversation AND later.created_at >= ?1)";
            Ok(tx.prepare_cached(sql)?.execute([At(before)])? as u64)
        })
        .await
    }
}

/// Adds a response, unless it is there already.
fn insert(tx: &Connection, response: &StoredResponse) -> Result<(), StoreError> {
    let sql = "INSERT INTO responses VALUES (?1, ?2, ?3, \
        coalesce((SELECT conversation FROM responses WHERE id = ?3), ?1), ?4, ?5, ?6, ?7) \
        ON CONFLICT DO NOTHING";
    let written = tx.prepare_cached(sql)?.execute(params![
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
            insert.execute(params![response.account, item, response.id])?;
        }
    }
    Ok(())
}

/// Forgets the oldest responses of an account until the rest fits.
fn shrink(tx: &Connection, account: AccountId, account_bytes: u64) -> Result<(), StoreError> {
    let mut sum = tx.prepare_cached("SELECT bytes FROM response_bytes WHERE account = ?")?;
    let stored = sum.query_row([account], |row| row.get::<_, Count>(0)).optional()?;
    let mut excess = stored.map_or(0, |count| count.0).saturating_sub(account_bytes);
    if excess == 0 {
        return Ok(());
    }
    let sql = "SELECT id, bytes FROM responses WHERE account = ? ORDER BY created_at, id";
    let mut oldest = tx.prepare_cached(sql)?;
    let mut rows = oldest.query([account])?;
    let mut doomed = Vec::<RequestId>::new();
    while excess > 0
        && let Some(row) = rows.next()?
    {
        doomed.push(row.get(0)?);
        excess = excess.saturating_sub(row.get::<_, Count>(1)?.0);
    }
    let mut delete = tx.prepare_cached("DELETE FROM responses WHERE id = ?")?;
    doomed.iter().try_for_each(|id| delete.execute([id]).map(|_| ()))?;
    Ok(())
}

fn find(
    tx: &Connection,
    account: AccountId,
    id: RequestId,
) -> rusqlite::Result<Option<StoredResponse>> {
    let mut select = tx.prepare_cached(&format!("{SELECT} WHERE account = ? AND id = ?"))?;
    let Some(mut response) = select.query_row(params![account, id], read).optional()? else {
        return Ok(None);
    };
    let mut items = tx.prepare_cached("SELECT item FROM response_items WHERE response = ?")?;
    response.items = items.query_map([id], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(Some(response))
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredResponse> {
    Ok(StoredResponse {
        id: row.get("id")?,
        account: row.get("account")?,
        previous: row.get("previous")?,
        created_at: row.get::<_, At>("created_at")?.0,
        input: row.get::<_, String>("input")?.into(),
        object: row.get::<_, String>("object")?.into(),
        items: Vec::new(),
    })
}
