//! Sessions.

use rusqlite::{Connection, OptionalExtension};

use super::codec::parameters;
use super::error::Constrained;
use super::identities::ACCOUNTS;
use crate::codec::At;
use crate::objects::{self, AccountRow};
use crate::{FoundSession, StoreError};
use domain::account::Session;
use domain::id::{AccountId, SessionId};

const SELECT: &str = "SELECT id, digest, account, created_at, expires_at FROM sessions";

/// Adds a session, and deletes those that had ended by then.
pub(super) fn insert(tx: &Connection, session: &Session) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM sessions WHERE expires_at <= ?")?
        .execute(parameters![At(session.created_at)])?;
    let sql = "INSERT INTO sessions (id, digest, account, created_at, expires_at) \
        VALUES (?, ?, ?, ?, ?)";
    tx.prepare_cached(sql)?
        .execute(parameters![
            session.id,
            session.digest,
            session.account,
            At(session.created_at),
            At(session.expires_at)
        ])
        .or_not_found()
        .or_conflict(|| "this session exists".to_owned())?;
    Ok(())
}

/// Deletes the oldest sessions beside `new` of its account beyond `max`.
pub(super) fn end_oldest(tx: &Connection, new: &Session, max: u32) -> Result<(), StoreError> {
    let sql = "DELETE FROM sessions WHERE digest IN (SELECT digest FROM sessions \
        WHERE account = ? AND digest <> ? ORDER BY created_at DESC, id LIMIT -1 OFFSET ?)";
    let others = max.saturating_sub(1);
    tx.prepare_cached(sql)?.execute(parameters![new.account, new.digest, others])?;
    Ok(())
}

/// Returns a session by the digest of its token.
pub(super) fn find(tx: &Connection, digest: [u8; 32]) -> Result<Option<FoundSession>, StoreError> {
    let mut select = tx.prepare_cached(&format!("{SELECT} WHERE digest = ?"))?;
    let found = select.query_row(parameters![digest], |row| objects::session(row)).optional()?;
    let Some(session) = found else { return Ok(None) };
    let mut select = tx.prepare_cached(&format!("{ACCOUNTS} WHERE id = ?"))?;
    let mut find = |id: AccountId| {
        select.query_row(parameters![id], |row| objects::account_or_person(row)).optional()
    };
    let (account, person) = match find(session.account)? {
        Some(AccountRow::Person(person)) => (find(person.account)?, Some(person)),
        account => (account, None),
    };
    let Some(AccountRow::Account(account)) = account else { return Ok(None) };
    Ok(Some(FoundSession { session, account, person }))
}

/// Returns an account's sessions, newest first.
pub(super) fn of(tx: &Connection, account: AccountId) -> Result<Vec<Session>, StoreError> {
    let sql = format!("{SELECT} WHERE account = ? ORDER BY created_at DESC, id");
    Ok(tx
        .prepare_cached(&sql)?
        .query_map(parameters![account], |row| objects::session(row))?
        .collect::<Result<_, _>>()?)
}

/// Deletes one session of an account.
pub(super) fn end(tx: &Connection, account: AccountId, id: &SessionId) -> Result<(), StoreError> {
    let sql = "DELETE FROM sessions WHERE account = ? AND id = ?";
    match tx.prepare_cached(sql)?.execute(parameters![account, id])? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// Deletes an account's sessions except one; returns how many.
pub(super) fn end_others(
    tx: &Connection,
    account: AccountId,
    keep: Option<[u8; 32]>,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM sessions WHERE account = ? AND digest IS NOT ?";
    Ok(tx.prepare_cached(sql)?.execute(parameters![account, keep])? as u64)
}
