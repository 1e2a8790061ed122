//! The people of accounts.

use async_trait::async_trait;

use super::changes::{ChangeTransaction, ChangedObject};
use super::codec::parameters;
use super::error::{Constrained, expect_changed};
use super::identities::ACCOUNTS;
use super::transaction::Transaction;
use super::{PostgresStore, password_resets};
use crate::codec::At;
use crate::objects::{self, free_name, status_columns};
use crate::{People, StoreError};
use domain::account::{AccountStatus, DELETED_PREFIX, PasswordReset};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::person::Person;

#[async_trait]
impl People for PostgresStore {
    async fn people(&self, account: AccountId) -> Result<Vec<Person>, StoreError> {
        let mut connection = self.connection().await?;
        of(&connection.view().await?, account).await
    }

    async fn add_person(
        &self,
        person: &Person,
        password_hash: &str,
        code: &PasswordReset,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        let sql = "INSERT INTO accounts (id, name, folded_name, password_hash, role, admin_role, \
            status, plan, created_at, belongs_to, person_role) \
            SELECT $1, $2, $3, $4, role, admin_role, $5, plan, $6, id, $7 FROM accounts WHERE id = $8";
        let values = parameters![
            person.id,
            person.name,
            person.name.to_lowercase(),
            password_hash,
            AccountStatus::Suspended,
            At(person.created_at),
            person.role,
            person.account
        ];
        let inserted = tx.execute(sql, values).await;
        expect_changed(inserted.or_conflict(|| objects::name_is_taken(&person.name))?)?;
        password_resets::insert(&tx, code).await?;
        tx.changes(ChangedObject::Account(person.id));
        tx.commit_audited(audit).await
    }

    async fn set_person_role(&self, person: &Person, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        let sql = "UPDATE accounts SET person_role = $1 \
            WHERE id = $2 AND belongs_to IS NOT NULL AND ended IS NULL";
        expect_changed(tx.execute(sql, parameters![person.role, person.id]).await?)?;
        password_resets::remove_created_by(&tx, person.id).await?;
        tx.changes(ChangedObject::Account(person.id));
        tx.commit_audited(audit).await
    }

    async fn remove_person(
        &self,
        person: AccountId,
        password_hash: &str,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        let (_, ended) = status_columns(AccountStatus::Closed);
        let sql = "UPDATE accounts SET folded_name = $1, password_hash = $2, ended = $3 \
            WHERE id = $4 AND belongs_to IS NOT NULL AND ended IS NULL";
        let values = parameters![free_name(person), password_hash, ended, person];
        expect_changed(tx.execute(sql, values).await?)?;
        tx.execute("DELETE FROM sessions WHERE account = $1", parameters![person]).await?;
        password_resets::remove(&tx, person).await?;
        tx.changes(ChangedObject::Account(person));
        tx.commit_audited(audit).await
    }
}

async fn of(tx: &Transaction<'_>, account: AccountId) -> Result<Vec<Person>, StoreError> {
    let sql = format!("{ACCOUNTS} WHERE belongs_to = $1 ORDER BY created_at, id");
    tx.query(&sql, parameters![account]).await?.iter().map(objects::person).collect()
}

/// Ends all sessions of an account's people, and deletes their codes and those that they created.
pub(super) async fn end_access(tx: &Transaction<'_>, account: AccountId) -> Result<(), StoreError> {
    let people = "(SELECT id FROM accounts WHERE belongs_to = $1)";
    let sql = format!("DELETE FROM sessions WHERE account IN {people}");
    tx.execute(&sql, parameters![account]).await?;
    let sql =
        format!("DELETE FROM password_resets WHERE account IN {people} OR created_by IN {people}");
    tx.execute(&sql, parameters![account]).await?;
    Ok(())
}

/// Replaces the names of an account's people by pseudonyms.
pub(super) async fn forget(
    tx: &mut ChangeTransaction<'_>,
    account: AccountId,
    hash: &str,
) -> Result<(), StoreError> {
    let (_, ended) = status_columns(AccountStatus::Deleted);
    let sql = "UPDATE accounts SET name = $1, folded_name = $1, password_hash = $2, ended = $3 \
        WHERE id = $4";
    for person in of(tx, account).await? {
        let pseudonym = format!("{DELETED_PREFIX}{}", person.id);
        tx.execute(sql, parameters![pseudonym, hash, ended, person.id]).await?;
        tx.changes(ChangedObject::Account(person.id));
    }
    Ok(())
}
