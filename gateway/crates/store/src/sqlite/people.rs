//! The people of accounts.

use async_trait::async_trait;
use rusqlite::Connection;

use super::codec::parameters;
use super::error::Constrained;
use super::identities::{ACCOUNTS, changed};
use super::{SqliteStore, password_resets};
use crate::codec::At;
use crate::objects::{self, free_name, status_columns};
use crate::{People, StoreError};
use domain::account::{AccountStatus, DELETED_PREFIX, PasswordReset};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::person::Person;

#[async_trait]
impl People for SqliteStore {
    async fn people(&self, account: AccountId) -> Result<Vec<Person>, StoreError> {
        self.read(move |tx| of(tx, account)).await
    }

    async fn add_person(
        &self,
        person: &Person,
        password_hash: &str,
        code: &PasswordReset,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let (person, hash, code) = (person.clone(), password_hash.to_owned(), code.clone());
        self.write_audited(audit, move |tx| {
            let sql = "INSERT INTO accounts (id, name, folded_name, password_hash, role, status, plan, \
                created_at, belongs_to, person_role) \
                SELECT ?, ?, ?, ?, role, ?, plan, ?, id, ? FROM accounts WHERE id = ?";
            let values = parameters![
                person.id,
                person.name,
                person.name.to_lowercase(),
                hash,
                AccountStatus::Suspended,
                At(person.created_at),
                person.role,
                person.account
            ];
            let inserted = tx.execute(sql, values);
            changed(inserted.or_conflict(|| objects::name_is_taken(&person.name))?)?;
            password_resets::insert(tx, &code)
        })
        .await
    }

    async fn set_person_role(&self, person: &Person, audit: &AuditEntry) -> Result<(), StoreError> {
        let (id, role) = (person.id, person.role);
        self.write_audited(audit, move |tx| {
            let sql = "UPDATE accounts SET person_role = ? \
                WHERE id = ? AND belongs_to IS NOT NULL AND ended IS NULL";
            changed(tx.execute(sql, parameters![role, id])?)?;
            password_resets::remove_created_by(tx, id)
        })
        .await
    }

    async fn remove_person(
        &self,
        person: AccountId,
        password_hash: &str,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let hash = password_hash.to_owned();
        self.write_audited(audit, move |tx| {
            let (_, ended) = status_columns(AccountStatus::Closed);
            let sql = "UPDATE accounts SET folded_name = ?, password_hash = ?, ended = ? \
                WHERE id = ? AND belongs_to IS NOT NULL AND ended IS NULL";
            changed(tx.execute(sql, parameters![free_name(person), hash, ended, person])?)?;
            tx.execute("DELETE FROM sessions WHERE account = ?", parameters![person])?;
            password_resets::remove(tx, person)
        })
        .await
    }
}

pub(super) fn of(tx: &Connection, account: AccountId) -> Result<Vec<Person>, StoreError> {
    let sql = format!("{ACCOUNTS} WHERE belongs_to = ? ORDER BY created_at, id");
    let mut select = tx.prepare_cached(&sql)?;
    let rows = select.query_map(parameters![account], |row| objects::person(row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Ends all sessions of an account's people, and deletes their codes and those that they created.
pub(super) fn end_access(tx: &Connection, account: AccountId) -> Result<(), StoreError> {
    let people = "(SELECT id FROM accounts WHERE belongs_to = ?1)";
    let sql = format!("DELETE FROM sessions WHERE account IN {people}");
    tx.execute(&sql, parameters![account])?;
    let sql =
        format!("DELETE FROM password_resets WHERE account IN {people} OR created_by IN {people}");
    tx.execute(&sql, parameters![account])?;
    Ok(())
}

/// Replaces the names of an account's people by pseudonyms.
pub(super) fn forget(tx: &Connection, account: AccountId, hash: &str) -> Result<(), StoreError> {
    let (_, ended) = status_columns(AccountStatus::Deleted);
    let sql = "UPDATE accounts SET name = ?1, folded_name = ?1, password_hash = ?2, ended = ?3 \
        WHERE id = ?4";
    for person in of(tx, account)? {
        let pseudonym = format!("{DELETED_PREFIX}{}", person.id);
        tx.execute(sql, parameters![pseudonym, hash, ended, person.id])?;
    }
    Ok(())
}
