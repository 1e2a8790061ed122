//! Accounts; keys are in `keys.rs`, sessions in `sessions.rs`, invites in `invites.rs`.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use super::{
    SqliteStore, catalogue, commit, invites, keys, models, password_resets, sessions, upstreams,
};
use crate::codec::At;
use crate::objects;
use crate::summary::day_of;
use crate::{FoundSession, Identities, Snapshot, StoreError};
use domain::account::{Account, Session};
use domain::audit::AuditEntry;
use domain::change::ChangeSeq;
use domain::id::{AccountId, KeyId, SessionId};
use domain::key::Key;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::person::Person;

#[async_trait]
impl Identities for SqliteStore {
    async fn load(&self) -> Result<Snapshot, StoreError> {
        self.read(|tx| {
            let (accounts, people) = accounts(tx)?;
            Ok(Snapshot {
                accounts,
                people,
                balances: commit::balances(tx)?,
                plans: catalogue::plans(tx)?,
                keys: keys::unrevoked(tx)?,
                models: models::all(tx)?,
                upstreams: upstreams::all(tx)?,
                changes: ChangeSeq::default(),
            })
        })
        .await
    }

    async fn add_account(
        &self,
        account: &Account,
        password_hash: &str,
        credits: &[Entry],
        invite: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let account = account.clone();
        let password_hash = password_hash.to_owned();
        let credits = credits.to_owned();
        self.write_audited(audit, move |tx| {
            if let Some(digest) = invite {
                invites::consume(tx, digest, &account)?;
            }
            insert_account(tx, &account, &password_hash)?;
            for entry in credits.iter().filter(|entry| entry.kind == EntryKind::Trial) {
                let sql = "INSERT INTO trial_days VALUES (?, ?) \
                    ON CONFLICT DO UPDATE SET amount = amount + excluded.amount";
                tx.prepare_cached(sql)?.execute(parameters![day_of(entry.at), entry.amount])?;
            }
            commit::add_entries(tx, &credits)
        })
        .await
    }

    async fn trial_given(&self, at: Timestamp) -> Result<Nanos, StoreError> {
        self.read(move |tx| {
            let sql = "SELECT amount FROM trial_days WHERE day = ?";
            let amount = tx
                .prepare_cached(sql)?
                .query_row(parameters![day_of(at)], |row| row.column(0))
                .optional()?;
            Ok(amount.unwrap_or_default())
        })
        .await
    }

    async fn update_account(
        &self,
        account: &Account,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let account = account.clone();
        self.write_audited(audit, move |tx| {
            let (status, ended) = objects::status_columns(account.status);
            let sql = "UPDATE accounts SET role = ?, status = ?, ended = ?, plan = ? WHERE id = ?";
            let values = parameters![account.role, status, ended, account.plan, account.id];
            changed(tx.prepare_cached(sql)?.execute(values)?)?;
            // They do not become valid again with a role that is given back.
            password_resets::remove(tx, account.id)
        })
        .await
    }

    async fn set_password(
        &self,
        account: AccountId,
        former: &str,
        password_hash: &str,
        keep: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<u64, StoreError> {
        let (former, hash) = (former.to_owned(), password_hash.to_owned());
        self.write_audited(audit, move |tx| {
            expect_password(tx, account, &former)?;
            set_password(tx, account, &hash, keep)
        })
        .await
    }

    async fn find_password_hash(
        &self,
        name: &str,
    ) -> Result<Option<(AccountId, String)>, StoreError> {
        let folded = name.to_lowercase();
        self.read(move |tx| {
            let sql = "SELECT id, password_hash FROM accounts WHERE folded_name = ?";
            let found = tx
                .prepare_cached(sql)?
                .query_row(parameters![folded], |row| Ok((row.column(0)?, row.column(1)?)))
                .optional()?;
            Ok(found)
        })
        .await
    }

    async fn add_session(
        &self,
        session: &Session,
        password_hash: &str,
        max_sessions: u32,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let (session, hash) = (session.clone(), password_hash.to_owned());
        self.write_audited(audit, move |tx| {
            expect_password(tx, session.account, &hash)?;
            sessions::insert(tx, &session)?;
            sessions::end_oldest(tx, &session, max_sessions)
        })
        .await
    }

    async fn find_session(&self, digest: [u8; 32]) -> Result<Option<FoundSession>, StoreError> {
        self.read(move |tx| sessions::find(tx, digest)).await
    }

    async fn sessions(&self, account: AccountId) -> Result<Vec<Session>, StoreError> {
        self.read(move |tx| sessions::of(tx, account)).await
    }

    async fn end_session(
        &self,
        account: AccountId,
        id: &SessionId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let id = id.clone();
        self.write_audited(audit, move |tx| sessions::end(tx, account, &id)).await
    }

    async fn end_other_sessions(
        &self,
        account: AccountId,
        keep: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<u64, StoreError> {
        self.write_audited(audit, move |tx| sessions::end_others(tx, account, keep)).await
    }

    async fn add_key(&self, key: &Key, audit: &AuditEntry) -> Result<(), StoreError> {
        let key = key.clone();
        self.write_audited(audit, move |tx| keys::insert(tx, &key)).await
    }

    async fn find_key(&self, id: &KeyId) -> Result<Option<(Key, Option<Timestamp>)>, StoreError> {
        let id = id.clone();
        self.read(move |tx| keys::find(tx, &id)).await
    }

    async fn count_usable_keys(
        &self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.read(move |tx| keys::count_usable(tx, account, now)).await
    }

    async fn keys(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<(Key, Option<Timestamp>)>, StoreError> {
        self.read(move |tx| keys::list(tx, account)).await
    }

    async fn update_keys(&self, keys: &[Key], audit: &AuditEntry) -> Result<(), StoreError> {
        let keys = keys.to_owned();
        self.write_audited(audit, move |tx| keys.iter().try_for_each(|key| keys::update(tx, key)))
            .await
    }

    async fn rotate_key(
        &self,
        old: &Key,
        successor: &Key,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let (old, successor) = (old.clone(), successor.clone());
        self.write_audited(audit, move |tx| keys::rotate(tx, &old, &successor)).await
    }

    async fn revoke_key(
        &self,
        id: &KeyId,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let id = id.clone();
        self.write_audited(audit, move |tx| keys::revoke(tx, &id, at)).await
    }
}

/// Selects accounts and people.
pub(super) const ACCOUNTS: &str = "SELECT id, name, role, status, ended, plan, created_at, belongs_to, \
    person_role FROM accounts";

fn accounts(tx: &Connection) -> Result<(Vec<Account>, Vec<Person>), StoreError> {
    let mut select = tx.prepare_cached(ACCOUNTS)?;
    let rows = select.query_map([], |row| objects::account_or_person(row))?;
    Ok(objects::separated(rows.collect::<Result<_, _>>()?))
}

/// Returns an error unless the account exists and has this password hash.
fn expect_password(tx: &Connection, account: AccountId, hash: &str) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM accounts WHERE id = ? AND password_hash = ?";
    let exists = tx.prepare_cached(sql)?.exists(parameters![account, hash])?;
    exists.then_some(()).ok_or(StoreError::NotFound)
}

/// Replaces the password hash of an account, and deletes its sessions except `keep` and its password
/// reset. Returns the number of deleted sessions.
pub(super) fn set_password(
    tx: &Connection,
    account: AccountId,
    hash: &str,
    keep: Option<[u8; 32]>,
) -> Result<u64, StoreError> {
    let sql = "UPDATE accounts SET password_hash = ? WHERE id = ?";
    changed(tx.prepare_cached(sql)?.execute(parameters![hash, account])?)?;
    password_resets::remove(tx, account)?;
    sessions::end_others(tx, account, keep)
}

pub(super) fn changed(rows: usize) -> Result<(), StoreError> {
    if rows == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}

fn insert_account(tx: &Connection, account: &Account, hash: &str) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO accounts (id, name, folded_name, password_hash, role, status, plan, \
            created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(parameters![
        account.id,
        account.name,
        account.name.to_lowercase(),
        hash,
        account.role,
        account.status,
        account.plan,
        At(account.created_at)
    ])
    .or_conflict(|| objects::name_is_taken(&account.name))?;
    Ok(())
}
