//! The right to write: one gateway at a time uses a database.
//!
//! A gateway takes the lease at its start and is then the only one that may write: each writing
//! transaction fails if a later gateway has taken the lease ([`Connection::begin`]). What it admits
//! from the balances in its memory is only sound while no other gateway does so, too. Hence it
//! renews the lease, and stops admitting before the lease can expire; another gateway takes it
//! only when
//!
//! - no connection holds the advisory lock, which ends with the process of its holder, and
//! - the last holder released the lease, or was not heard of for [`PATIENCE`], or had the same data
//!   directory, whose own lock proves that it has ended.
//!
//! Times are those of the database and, between renewals, of the monotonic clock; both clocks must
//! run at nearly the same rate, and need not agree. A process that was suspended for longer than
//! [`PATIENCE`] may admit requests until its next renewal; their records are refused by the store.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::codec::{ReadColumn, parameters};
use super::transaction::{Connection, Transaction};
use crate::StoreError;

/// The time after which a silent holder no longer admits requests.
const PATIENCE: Duration = Duration::from_mins(1);
/// The time after which the holder stops by itself: earlier than [`PATIENCE`], because a renewal
/// may be delayed on its way.
const HOLDER_PATIENCE: Duration = Duration::from_secs(40);
/// The time between two renewals.
const RENEWAL: Duration = Duration::from_secs(5);
/// The time for which a start waits for the advisory lock of a process that is just ending.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The advisory lock. `migrations.rs` has another one.
const LOCK: i64 = 0x746f_6c6c_0000_0002;

/// Another gateway uses the database.
#[derive(Debug, thiserror::Error)]
pub(super) enum InUseError {
    /// It is connected.
    #[error("another gateway is using this database")]
    Connected,
    /// It is not connected, but may still serve.
    #[error(
        "another gateway used this database {silent_seconds} s ago and did not stop cleanly; it \
         may still serve requests. Restart it in its data directory, or try again in {wait_seconds} s"
    )]
    Recent {
        /// The time since it was heard of.
        silent_seconds: i64,
        /// The time until the lease expires.
        wait_seconds: i64,
    },
}

/// The reason why a gateway must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// Another gateway has taken over.
    #[error("another gateway has taken over the database")]
    Superseded,
    /// The database was not reached for so long that another gateway may take over.
    #[error("the database was not reached for {} s", HOLDER_PATIENCE.as_secs())]
    Unreachable,
}

/// The lease of this process.
pub(super) struct Lease {
    pub(super) epoch: i64,
    /// The pool of the connection that holds the advisory lock.
    pool: Pool,
    /// That connection; `None` if it was lost.
    session: Mutex<Option<Session>>,
}

struct Session {
    connection: Connection,
    /// Whether the session has the lock. The server may not have noticed yet that a former
    /// connection was lost.
    is_locked: bool,
}

impl Lease {
    /// Takes the lease for the gateway whose data directory is `node`.
    pub(super) async fn take(
        pool: Pool,
        node: Uuid,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut connection = Connection::of(&pool).await?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        while !try_lock(&connection.begin_unfenced().await?).await? {
            if Instant::now() > deadline {
                return Err(InUseError::Connected.into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        let tx = connection.begin_unfenced().await?;
        let patience = i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX);
        let sql = "UPDATE lease SET epoch = epoch + 1, node = $1, heard_at = now(), \
            released = false WHERE released OR node = $1 \
            OR heard_at < now() - make_interval(secs => $2::bigint) RETURNING epoch";
        let taken = tx.query_opt(sql, parameters![*node.as_bytes(), patience]).await?;
        let Some(row) = taken else {
            let sql = "SELECT extract(epoch FROM now() - heard_at)::bigint FROM lease";
            let silent_seconds = tx.query_one("lease", sql, &[]).await?.column(0)?;
            let wait_seconds = patience - silent_seconds + 1;
            return Err(InUseError::Recent { silent_seconds, wait_seconds }.into());
        };
        let epoch = row.column(0)?;
        tx.commit().await?;
        let session = Mutex::new(Some(Session { connection, is_locked: true }));
        Ok(Self { epoch, pool, session })
    }

    /// Renews the lease until it is lost. If the connection was lost, opens another one and locks
    /// again; the lease is kept meanwhile.
    pub(super) async fn keep(&self) -> LeaseLost {
        let mut renewed = Instant::now();
        loop {
            sleep(RENEWAL).await;
            let started = Instant::now();
            match self.try_renew().await {
                Some(true) => renewed = started,
                Some(false) => return LeaseLost::Superseded,
                None => {}
            }
            if renewed.elapsed() > HOLDER_PATIENCE {
                return LeaseLost::Unreachable;
            }
        }
    }

    /// Releases the lease, so that another gateway can take it at once.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        // The connection would otherwise stay open in its pool, and keep the lock.
        self.pool.close();
        let Some(mut session) = self.session.lock().await.take() else { return Ok(()) };
        let tx = session.connection.begin_unfenced().await?;
        let sql = "UPDATE lease SET released = true WHERE epoch = $1";
        tx.execute(sql, parameters![self.epoch]).await?;
        tx.commit().await
    }

    /// Renews the lease once. Returns whether this gateway still has it, or `None` if the database
    /// cannot say; the next call then uses another connection.
    pub(super) async fn try_renew(&self) -> Option<bool> {
        if let Ok(Ok(is_held)) = timeout(RENEWAL, self.renew()).await {
            return Some(is_held);
        }
        if let Some(Session { connection, .. }) = self.session.lock().await.take() {
            connection.detach();
        }
        None
    }

    async fn renew(&self) -> Result<bool, StoreError> {
        let mut session = self.session.lock().await;
        let session = match &mut *session {
            Some(session) => session,
            none => {
                let connection = Connection::of(&self.pool).await?;
                none.insert(Session { connection, is_locked: false })
            }
        };
        let tx = session.connection.begin_unfenced().await?;
        if !session.is_locked {
            // Meanwhile, the lease alone keeps other gateways out.
            session.is_locked = try_lock(&tx).await?;
        }
        let sql = "UPDATE lease SET heard_at = now() WHERE epoch = $1";
        let is_held = tx.execute(sql, parameters![self.epoch]).await? > 0;
        tx.commit().await?;
        Ok(is_held)
    }
}

/// Takes the advisory lock for the session, unless another one has it.
async fn try_lock(tx: &Transaction<'_>) -> Result<bool, StoreError> {
    let sql = "SELECT pg_try_advisory_lock($1)";
    tx.query_one("the lock", sql, parameters![LOCK]).await?.column(0)
}
