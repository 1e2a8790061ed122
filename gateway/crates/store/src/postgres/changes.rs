//! Changes of accounts, keys and the catalogue, in one order for all nodes.
//!
//! A transaction that changes such an object locks the single row of `change_log_end`, names the
//! object in `changes`, and notifies the other nodes. It fails with [`StoreError::Stale`] if there
//! are changes that this gateway has not applied to its directory: what the caller validated and
//! what it writes is then based on an older state. Invariant: changes are committed in the order of
//! their numbers, without gaps. The oldest are deleted; a node that lacks deleted ones reads all
//! objects. So does each node after a failover of the database: it may have lost changes, whose numbers
//! are then used again.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use super::audit::rows;
use super::codec::{ReadColumn, arrays, parameters};
use super::identities::{ACCOUNTS, accounts};
use super::timeline::Timeline;
use super::transaction::{Connection, OPERATION_LIMIT, Transaction};
use super::{PostgresStore, audit, catalogue, models, upstreams};
use crate::StoreError;
use crate::fleet::{Changes, StoredCatalogue, UnappliedChanges};
use crate::objects::{self, select_keys};
use domain::audit::AuditEntry;
use domain::change::{ChangeSeq, Unapplied};
use domain::id::{AccountId, KeyId, ModelId, PlanName, UpstreamName};

/// The time to read all accounts and keys after a long absence. A million keys take some seconds.
const READ_ALL_LIMIT: Duration = Duration::from_mins(10);

/// The channel of notifications.
pub(super) const CHANNEL: &str = "tollgate_changes";

/// A changed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChangedObject {
    Account(AccountId),
    Key(KeyId),
    Plan(PlanName),
    Model(ModelId),
    Upstream(UpstreamName),
}

/// A transaction that changes the directory; rolled back on drop. Dereferences to [`Transaction`].
pub(super) struct ChangeTransaction<'a> {
    transaction: Transaction<'a>,
    /// The newest change.
    end: ChangeSeq,
    objects: Vec<ChangedObject>,
    applied: &'a AppliedChanges,
}

/// The newest change that the directory of this gateway has.
#[derive(Debug)]
pub(super) struct AppliedChanges(Mutex<ChangeSeq>);

impl PostgresStore {
    /// Starts a transaction that changes the directory.
    pub(super) async fn begin_change<'a>(
        &'a self,
        connection: &'a mut Connection,
    ) -> Result<ChangeTransaction<'a>, StoreError> {
        self.lock_changes(connection.begin(self.epoch).await?).await
    }

    /// Continues a transaction as one that changes the directory.
    pub(super) async fn lock_changes<'a>(
        &'a self,
        transaction: Transaction<'a>,
    ) -> Result<ChangeTransaction<'a>, StoreError> {
        let end = end(&transaction, self.timeline, "FOR UPDATE").await?;
        if !self.applied.get().includes(end) {
            return Err(StoreError::Stale);
        }
        Ok(ChangeTransaction { transaction, end, objects: Vec::new(), applied: &self.applied })
    }
}

/// Reads all objects with changes after `applied`; `None` if such changes were deleted, or `applied` is of another
/// timeline.
async fn read_changes(
    connection: &mut Connection,
    timeline: Timeline,
    applied: ChangeSeq,
) -> Result<Option<UnappliedChanges>, StoreError> {
    let tx = connection.view().await?;
    let newest = newest(&tx, timeline).await?;
    let mut changes = UnappliedChanges { newest, ..UnappliedChanges::default() };
    if applied.includes(newest) {
        return Ok(Some(changes));
    }
    // Changes have no gaps, and the oldest are deleted first.
    let sql = "SELECT EXISTS (SELECT FROM changes WHERE seq = $1::bigint + 1)";
    let next = tx.query_one("changes", sql, parameters![applied.number]).await?;
    match applied.unapplied(newest, next.column(0)?) {
        Unapplied::Nothing => return Ok(Some(changes)),
        Unapplied::Changes => {}
        Unapplied::Everything => return Ok(None),
    }
    let applied = applied.number;
    let sql = format!(
        "{ACCOUNTS} WHERE id IN \
            (SELECT object_id::uuid FROM changes WHERE seq > $1 AND object_kind = 'account')"
    );
    let accounts = tx.query(&sql, parameters![applied]).await?;
    let accounts = accounts.iter().map(objects::account_or_person).collect::<Result<_, _>>()?;
    (changes.accounts, changes.people) = objects::separated(accounts);
    let sql = select_keys(
        "WHERE id IN (SELECT object_id FROM changes WHERE seq > $1 AND object_kind = 'key')",
    );
    let keys = tx.query(&sql, parameters![applied]).await?;
    changes.keys = keys.iter().map(objects::key).collect::<Result<_, _>>()?;
    let sql = "SELECT EXISTS (SELECT FROM changes \
        WHERE seq > $1 AND object_kind IN ('plan', 'model', 'upstream'))";
    if tx.query_one("changes", sql, parameters![applied]).await?.column(0)? {
        changes.catalogue = Some(catalogue_of(&tx).await?);
    }
    Ok(Some(changes))
}

/// Reads all objects.
async fn read_all(
    connection: &mut Connection,
    timeline: Timeline,
) -> Result<UnappliedChanges, StoreError> {
    let tx = connection.view().await?;
    let newest = newest(&tx, timeline).await?;
    let keys = tx.query(&select_keys(""), &[]).await?;
    let (accounts, people) = accounts(&tx).await?;
    Ok(UnappliedChanges {
        newest,
        is_complete: true,
        accounts,
        people,
        keys: keys.iter().map(objects::key).collect::<Result<_, _>>()?,
        catalogue: Some(catalogue_of(&tx).await?),
    })
}

async fn catalogue_of(tx: &Transaction<'_>) -> Result<StoredCatalogue, StoreError> {
    Ok(StoredCatalogue {
        plans: catalogue::plans(tx).await?,
        models: models::all(tx).await?,
        upstreams: upstreams::all(tx).await?,
    })
}

#[async_trait]
impl Changes for PostgresStore {
    async fn unapplied_changes(&self) -> Result<UnappliedChanges, StoreError> {
        let applied = self.applied.get();
        let mut connection = self.connection().await?;
        let reading = read_changes(&mut connection, self.timeline, applied);
        let outcome = match timeout(OPERATION_LIMIT, reading).await {
            Ok(Ok(None)) => timeout(READ_ALL_LIMIT, read_all(&mut connection, self.timeline)).await,
            Ok(Ok(Some(changes))) => Ok(Ok(changes)),
            Ok(Err(error)) => Ok(Err(error)),
            Err(elapsed) => Err(elapsed),
        };
        connection.check_time(outcome)
    }

    fn mark_applied(&self, newest: ChangeSeq) {
        self.applied.set(newest);
    }

    async fn delete_old_changes(&self, kept: u32, limit: usize) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        if !tx.try_claim_retention().await? {
            return Ok(0);
        }
        let sql = "DELETE FROM changes WHERE seq IN (SELECT seq FROM changes \
            WHERE seq <= (SELECT seq FROM change_log_end) - $1::bigint ORDER BY seq LIMIT $2)";
        let deleted = tx.execute(sql, parameters![i64::from(kept), rows(limit)]).await?;
        tx.commit().await?;
        Ok(deleted)
    }
}

/// Returns the newest change.
pub(super) async fn newest(
    tx: &Transaction<'_>,
    timeline: Timeline,
) -> Result<ChangeSeq, StoreError> {
    end(tx, timeline, "").await
}

async fn end(
    tx: &Transaction<'_>,
    timeline: Timeline,
    lock: &str,
) -> Result<ChangeSeq, StoreError> {
    let timeline = timeline.sql();
    let sql = format!("SELECT {timeline}, seq FROM change_log_end {lock}");
    let row = tx.query_one("change_log_end", &sql, &[]).await?;
    Ok(ChangeSeq { timeline: row.column(0)?, number: row.column(1)? })
}

// === impl AppliedChanges ===

impl AppliedChanges {
    /// Returns that of an empty directory.
    pub(super) async fn none(tx: &Transaction<'_>, timeline: Timeline) -> Result<Self, StoreError> {
        let newest = newest(tx, timeline).await?;
        Ok(Self(Mutex::new(ChangeSeq { number: 0, ..newest })))
    }

    pub(super) fn get(&self) -> ChangeSeq {
        *self.lock()
    }

    /// Records that the directory has all changes up to `newest`. Within a timeline, an earlier one changes nothing.
    fn set(&self, newest: ChangeSeq) {
        let mut applied = self.lock();
        if !applied.includes(newest) {
            *applied = newest;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ChangeSeq> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ChangeTransaction ===

impl<'a> Deref for ChangeTransaction<'a> {
    type Target = Transaction<'a>;

    fn deref(&self) -> &Transaction<'a> {
        &self.transaction
    }
}

impl ChangeTransaction<'_> {
    /// Names an object that the transaction changes.
    pub(super) fn changes(&mut self, object: ChangedObject) {
        self.objects.push(object);
    }

    /// Adds an audit entry and commits. The caller must then apply the changes to its directory,
    /// before any other ones: they count as applied.
    pub(super) async fn commit_audited(self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.commit_all_audited(std::slice::from_ref(entry)).await
    }

    /// Like [`commit_audited`](Self::commit_audited), with several entries or none.
    pub(super) async fn commit_all_audited(self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        let tx = &self.transaction;
        for entry in entries {
            audit::insert(tx, entry).await?;
        }
        let objects: Vec<_> = (self.end.number + 1..).zip(&self.objects).collect();
        let end = objects.last().map_or(self.end.number, |(seq, _)| *seq);
        if !objects.is_empty() {
            let sql = "INSERT INTO changes (seq, object_kind, object_id) \
                SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])";
            tx.execute(sql, arrays!(objects, |row| row.0, row.1.kind(), row.1.id())).await?;
            tx.execute("UPDATE change_log_end SET seq = $1", parameters![end]).await?;
            tx.execute("SELECT pg_notify($1, '')", parameters![CHANNEL]).await?;
        }
        self.transaction.commit().await?;
        self.applied.set(ChangeSeq { number: end, ..self.end });
        Ok(())
    }
}

impl ChangedObject {
    fn kind(&self) -> &'static str {
        match self {
            Self::Account(_) => "account",
            Self::Key(_) => "key",
            Self::Plan(_) => "plan",
            Self::Model(_) => "model",
            Self::Upstream(_) => "upstream",
        }
    }

    fn id(&self) -> String {
        match self {
            Self::Account(id) => id.to_string(),
            Self::Key(id) => id.to_string(),
            Self::Plan(name) => name.to_string(),
            Self::Model(id) => id.to_string(),
            Self::Upstream(name) => name.to_string(),
        }
    }
}
