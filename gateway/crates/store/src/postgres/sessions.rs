//! Sessions.

use super::codec::parameters;
use super::error::{Constrained, expect_changed};
use super::identities::ACCOUNTS;
use super::transaction::Transaction;
use crate::codec::At;
use crate::objects::{self, AccountRow};
use crate::{FoundSession, StoreError};
use domain::account::Session;
use domain::id::{AccountId, SessionId};

/// Adds a session, and deletes those that had ended by then.
pub(super) async fn insert(tx: &Transaction<'_>, session: &Session) -> Result<(), StoreError> {
    let sql = "DELETE FROM sessions WHERE expires_at <= $1";
    tx.execute(sql, parameters![At(session.created_at)]).await?;
    let sql = "INSERT INTO sessions (id, digest, account, created_at, expires_at) \
        VALUES ($1, $2, $3, $4, $5)";
    let values = parameters![
        session.id,
        session.digest,
        session.account,
        At(session.created_at),
        At(session.expires_at)
    ];
    let inserted = tx.execute(sql, values).await;
    inserted.or_not_found().or_conflict(|| "this session exists".to_owned())?;
    Ok(())
}

/// Deletes the oldest sessions beside `new` of its account beyond `max`.
pub(super) async fn end_oldest(
    tx: &Transaction<'_>,
    new: &Session,
    max: u32,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM sessions WHERE digest IN (SELECT digest FROM sessions \
        WHERE account = $1 AND digest <> $2 ORDER BY created_at DESC, id COLLATE \"C\" OFFSET $3)";
    let others = max.saturating_sub(1);
    tx.execute(sql, parameters![new.account, new.digest, others]).await?;
    Ok(())
}

/// Returns a session by the digest of its token.
pub(super) async fn find(
    tx: &Transaction<'_>,
    digest: [u8; 32],
) -> Result<Option<FoundSession>, StoreError> {
    let sql = "SELECT id, digest, account, created_at, expires_at FROM sessions WHERE digest = $1";
    let found = tx.query_opt(sql, parameters![digest]).await?;
    let Some(session) = found.as_ref().map(objects::session).transpose()? else { return Ok(None) };
    let sql = format!("{ACCOUNTS} WHERE id = $1");
    let find = async |id: AccountId| {
        let row = tx.query_opt(&sql, parameters![id]).await?;
        row.as_ref().map(objects::account_or_person).transpose()
    };
    let (account, person) = match find(session.account).await? {
        Some(AccountRow::Person(person)) => (find(person.account).await?, Some(person)),
        account => (account, None),
    };
    let Some(AccountRow::Account(account)) = account else { return Ok(None) };
    Ok(Some(FoundSession { session, account, person }))
}

/// Returns an account's sessions, newest first.
pub(super) async fn of(
    tx: &Transaction<'_>,
    account: AccountId,
) -> Result<Vec<Session>, StoreError> {
    let sql = "SELECT id, digest, account, created_at, expires_at FROM sessions \
        WHERE account = $1 ORDER BY created_at DESC, id COLLATE \"C\"";
    tx.query(sql, parameters![account]).await?.iter().map(objects::session).collect()
}

/// Deletes one session of an account.
pub(super) async fn end(
    tx: &Transaction<'_>,
    account: AccountId,
    id: &SessionId,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM sessions WHERE account = $1 AND id = $2";
    expect_changed(tx.execute(sql, parameters![account, id]).await?)
}

/// Deletes an account's sessions except one; returns how many.
pub(super) async fn end_others(
    tx: &Transaction<'_>,
    account: AccountId,
    keep: Option<[u8; 32]>,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM sessions WHERE account = $1 AND digest IS DISTINCT FROM $2";
    tx.execute(sql, parameters![account, keep]).await
}
