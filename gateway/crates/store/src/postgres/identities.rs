//! Accounts; keys are in `keys.rs`, sessions in `sessions.rs`, invites in `invites.rs`.

use async_trait::async_trait;
use jiff::Timestamp;

use super::changes::ChangedObject;
use super::codec::{ReadColumn, parameters};
use super::error::{Constrained, expect_changed};
use super::transaction::Transaction;
use super::{
    PostgresStore, catalogue, changes, entries, invites, keys, models, password_resets, sessions,
    upstreams,
};
use crate::codec::At;
use crate::objects;
use crate::summary::day_of;
use crate::{FoundSession, Identities, Snapshot, StoreError};
use domain::account::{Account, Role, Session};
use domain::audit::AuditEntry;
use domain::id::{AccountId, KeyId, SessionId};
use domain::key::Key;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::person::Person;

#[async_trait]
impl Identities for PostgresStore {
    async fn load(&self) -> Result<Snapshot, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let (accounts, people) = accounts(&tx).await?;
        Ok(Snapshot {
            accounts,
            people,
            balances: entries::balances(&tx).await?,
            plans: catalogue::plans(&tx).await?,
            keys: keys::unrevoked(&tx).await?,
            models: models::all(&tx).await?,
            upstreams: upstreams::all(&tx).await?,
            changes: changes::newest(&tx, self.timeline).await?,
        })
    }

    async fn add_account(
        &self,
        account: &Account,
        password_hash: &str,
        credits: &[Entry],
        invite: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        if let Some(digest) = invite {
            invites::consume(&tx, digest, account).await?;
        }
        insert_account(&tx, account, password_hash).await?;
        for entry in credits.iter().filter(|entry| entry.kind == EntryKind::Trial) {
            let sql = "INSERT INTO trial_days AS stored VALUES ($1, $2) ON CONFLICT (day) \
                DO UPDATE SET amount = saturating_add(stored.amount, excluded.amount)";
            tx.execute(sql, parameters![day_of(entry.at), entry.amount]).await?;
        }
        entries::add(&tx, credits).await?;
        tx.changes(ChangedObject::Account(account.id));
        tx.commit_audited(audit).await
    }

    async fn trial_given(&self, at: Timestamp) -> Result<Nanos, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = "SELECT amount FROM trial_days WHERE day = $1";
        let row = tx.query_opt(sql, parameters![day_of(at)]).await?;
        row.map_or(Ok(Nanos::ZERO), |row| row.column(0))
    }

    async fn update_account(
        &self,
        account: &Account,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        let (status, ended) = objects::status_columns(account.status);
        let sql = "UPDATE accounts SET role = $1, admin_role = $2, status = $3, ended = $4, \
            plan = $5 WHERE id = $6";
        let values = parameters![
            earlier_role(account.role),
            account.role,
            status,
            ended,
            account.plan,
            account.id
        ];
        expect_changed(tx.execute(sql, values).await?)?;
        // They do not become valid again with a role that is given back.
        password_resets::remove(&tx, account.id).await?;
        tx.changes(ChangedObject::Account(account.id));
        tx.commit_audited(audit).await
    }

    async fn set_password(
        &self,
        account: AccountId,
        former: &str,
        password_hash: &str,
        keep: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "SELECT FROM accounts WHERE id = $1 AND password_hash = $2 FOR UPDATE";
        let found = tx.query_opt(sql, parameters![account, former]).await?;
        found.ok_or(StoreError::NotFound)?;
        let ended = set_password(&tx, account, password_hash, keep).await?;
        tx.commit_audited(audit).await?;
        Ok(ended)
    }

    async fn find_password_hash(
        &self,
        name: &str,
    ) -> Result<Option<(AccountId, String)>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = "SELECT id, password_hash FROM accounts WHERE folded_name = $1";
        let row = tx.query_opt(sql, parameters![name.to_lowercase()]).await?;
        row.map(|row| Ok((row.column(0)?, row.column(1)?))).transpose()
    }

    async fn add_session(
        &self,
        session: &Session,
        password_hash: &str,
        max_sessions: u32,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        // A change of the password waits for this transaction, and then ends the session.
        let sql = "SELECT FROM accounts WHERE id = $1 AND password_hash = $2 FOR SHARE";
        let found = tx.query_opt(sql, parameters![session.account, password_hash]).await?;
        found.ok_or(StoreError::NotFound)?;
        sessions::insert(&tx, session).await?;
        sessions::end_oldest(&tx, session, max_sessions).await?;
        tx.commit_audited(audit).await
    }

    async fn find_session(&self, digest: [u8; 32]) -> Result<Option<FoundSession>, StoreError> {
        let mut connection = self.connection().await?;
        sessions::find(&connection.view().await?, digest).await
    }

    async fn sessions(&self, account: AccountId) -> Result<Vec<Session>, StoreError> {
        let mut connection = self.connection().await?;
        sessions::of(&connection.view().await?, account).await
    }

    async fn end_session(
        &self,
        account: AccountId,
        id: &SessionId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        sessions::end(&tx, account, id).await?;
        tx.commit_audited(audit).await
    }

    async fn end_other_sessions(
        &self,
        account: AccountId,
        keep: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let ended = sessions::end_others(&tx, account, keep).await?;
        tx.commit_audited(audit).await?;
        Ok(ended)
    }

    async fn add_key(&self, key: &Key, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        keys::insert(&tx, key).await?;
        tx.changes(ChangedObject::Key(key.id.clone()));
        tx.commit_audited(audit).await
    }

    async fn find_key(&self, id: &KeyId) -> Result<Option<(Key, Option<Timestamp>)>, StoreError> {
        let mut connection = self.connection().await?;
        keys::find(&connection.view().await?, id).await
    }

    async fn count_usable_keys(
        &self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        keys::count_usable(&connection.view().await?, account, now).await
    }

    async fn keys(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<(Key, Option<Timestamp>)>, StoreError> {
        let mut connection = self.connection().await?;
        keys::list(&connection.view().await?, account).await
    }

    async fn update_keys(&self, keys: &[Key], audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        for key in keys {
            keys::update(&tx, key).await?;
            tx.changes(ChangedObject::Key(key.id.clone()));
        }
        tx.commit_audited(audit).await
    }

    async fn rotate_key(
        &self,
        old: &Key,
        successor: &Key,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        keys::rotate(&tx, old, successor).await?;
        tx.changes(ChangedObject::Key(old.id.clone()));
        tx.changes(ChangedObject::Key(successor.id.clone()));
        tx.commit_audited(audit).await
    }

    async fn revoke_key(
        &self,
        id: &KeyId,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        keys::revoke(&tx, id, at).await?;
        tx.changes(ChangedObject::Key(id.clone()));
        tx.commit_audited(audit).await
    }
}

/// Selects accounts and people.
pub(super) const ACCOUNTS: &str = "SELECT id, name, admin_role AS role, status, ended, plan, created_at, \
    belongs_to, person_role FROM accounts";

/// Returns the role in the column `role`, which gateways before version 8 of the schema read. They
/// know members and operators only, and grant no roles.
fn earlier_role(role: Role) -> Role {
    match role {
        Role::Member | Role::Support => Role::Member,
        Role::Operator | Role::Owner => Role::Operator,
    }
}

/// Returns all accounts and people.
pub(super) async fn accounts(
    tx: &Transaction<'_>,
) -> Result<(Vec<Account>, Vec<Person>), StoreError> {
    let rows = tx.query(ACCOUNTS, &[]).await?;
    let rows = rows.iter().map(objects::account_or_person).collect::<Result<_, _>>()?;
    Ok(objects::separated(rows))
}

/// Replaces the password hash of an account, and deletes its sessions except `keep` and its password
/// reset. Returns the number of deleted sessions.
pub(super) async fn set_password(
    tx: &Transaction<'_>,
    account: AccountId,
    hash: &str,
    keep: Option<[u8; 32]>,
) -> Result<u64, StoreError> {
    let sql = "UPDATE accounts SET password_hash = $1 WHERE id = $2";
    expect_changed(tx.execute(sql, parameters![hash, account]).await?)?;
    password_resets::remove(tx, account).await?;
    sessions::end_others(tx, account, keep).await
}

async fn insert_account(
    tx: &Transaction<'_>,
    account: &Account,
    hash: &str,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO accounts (id, name, folded_name, password_hash, role, admin_role, \
        status, plan, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let values = parameters![
        account.id,
        account.name,
        account.name.to_lowercase(),
        hash,
        earlier_role(account.role),
        account.role,
        account.status,
        account.plan,
        At(account.created_at)
    ];
    let inserted = tx.execute(sql, values).await;
    inserted.or_conflict(|| objects::name_is_taken(&account.name))?;
    Ok(())
}
