//! The store in a PostgreSQL database, version 15 or later, which several gateways may use.
//!
//! Each method takes a connection of a pool and runs one transaction. `nodes.rs` knows the gateways,
//! and fences a process that was replaced. Operations that returned `Ok` survive a crash of the server as far as its
//! `synchronous_commit` promises; `off` is refused. Start with [`PostgresStore::open`], then
//! `commit.rs`, the hot path. Only this module uses `tokio_postgres`.

mod account_lifecycle;
mod address;
mod alerts;
mod allocation_use;
mod allocations;
mod audit;
mod catalogue;
mod changes;
mod claims;
mod codec;
mod commit;
mod consumption;
mod entries;
mod error;
mod filter;
mod identities;
mod import;
mod invites;
mod keys;
mod maintenance;
mod migrations;
mod models;
mod nodes;
mod notifications;
mod operations;
mod operator_token;
mod partitions;
mod password_resets;
mod people;
mod pools;
mod recalls;
mod requests;
mod responses;
mod seal_keys;
mod sessions;
mod summary;
mod sums;
#[cfg(test)]
mod tests;
mod timeline;
mod tls;
mod traffic;
mod transaction;
mod upstreams;
mod verify;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tokio::sync::Semaphore;

use self::changes::AppliedChanges;
use self::codec::ReadColumn;
use self::error::AsynchronousCommitError;
use self::migrations::LockPatience;
use self::nodes::NodeEpoch;
use self::timeline::Timeline;
use self::tls::MakeConnector;
use self::transaction::Connection;
use super::fleet::JoiningNode;
use super::{Schema, StoreError, Upgrade};
use domain::node::NodeId;

pub use self::address::{AddressError, PostgresAddress};
pub(crate) use self::import::Import;

/// The schema that a database has once it is open, unless a newer gateway has migrated it further.
pub const SCHEMA: Schema = Schema { backend: "PostgreSQL", version: migrations::VERSION };

/// The number of connections, without those of heartbeats and notifications.
const CONNECTIONS: usize = 8;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: Pool,
    /// One connection, so that heartbeats do not wait for other work.
    heartbeats: Pool,
    epoch: NodeEpoch,
    /// The address, for the connection that receives notifications.
    address: PostgresAddress,
    /// The newest change that the gateway's directory has.
    applied: AppliedChanges,
    timeline: Timeline,
    /// At most one verification runs at a time.
    background: Semaphore,
}

impl PostgresStore {
    /// Connects to the database, migrates it if necessary, and joins its nodes as `node`.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the server cannot be reached or refuses, if the database has a
    /// newer schema or commits asynchronously, or if the node was removed or another one has its
    /// name.
    pub async fn open(address: &PostgresAddress, node: &JoiningNode) -> Result<Self, StoreError> {
        Self::try_open(address, node)
            .await
            .map_err(|source| StoreError::Unopened { location: address.to_string(), source })
    }

    /// Returns whether the database has no schema.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the server cannot be reached or refuses.
    pub async fn is_uninitialized(address: &PostgresAddress) -> Result<bool, StoreError> {
        let check = async {
            let mut connection = Connection::of(&create_pool(address, 1)?).await.map_err(cause)?;
            let tx = connection.view().await?;
            let sql = "SELECT to_regclass('schema_version') IS NULL";
            Ok(tx.query_one("pg_class", sql, &[]).await?.column(0)?)
        };
        check.await.map_err(|source| StoreError::Unopened { location: address.to_string(), source })
    }

    /// Returns what [`open`](Self::open) would do to the schema, and changes nothing; `None` if the
    /// database has none.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the server cannot be reached or refuses.
    pub async fn upgrade(address: &PostgresAddress) -> Result<Option<Upgrade>, StoreError> {
        let find = async {
            let mut connection = Connection::of(&create_pool(address, 1)?).await.map_err(cause)?;
            Ok(migrations::find_upgrade(&mut connection).await?)
        };
        find.await.map_err(|source| StoreError::Unopened { location: address.to_string(), source })
    }

    /// Returns the fingerprint of the key that all gateways of the database have, without joining them; `None` if
    /// none has started yet.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the server cannot be reached or refuses.
    pub async fn seal_fingerprint(address: &PostgresAddress) -> Result<Option<String>, StoreError> {
        let find = async {
            let mut connection = Connection::of(&create_pool(address, 1)?).await.map_err(cause)?;
            let tx = connection.view().await?;
            let exists = "SELECT to_regclass('meta') IS NOT NULL";
            if !tx.query_one("pg_class", exists, &[]).await?.column(0)? {
                return Ok(None);
            }
            Ok(seal_keys::find(&tx).await?)
        };
        find.await.map_err(|source| StoreError::Unopened { location: address.to_string(), source })
    }

    async fn try_open(
        address: &PostgresAddress,
        node: &JoiningNode,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let pool = create_pool(address, CONNECTIONS)?;
        let mut connection = Connection::of(&pool).await.map_err(cause)?;
        refuse_asynchronous_commits(&mut connection).await?;
        migrations::run(&mut connection, LockPatience::DEFAULT).await.map_err(cause)?;
        let epoch = nodes::join(&mut connection, node).await?;
        let timeline = Timeline::detect(&mut connection).await?;
        let applied = AppliedChanges::none(&connection.view().await?, timeline).await?;
        let heartbeats = create_pool(address, 1)?;
        Ok(Self {
            pool,
            heartbeats,
            epoch,
            address: address.clone(),
            applied,
            timeline,
            background: Semaphore::new(1),
        })
    }

    /// Returns the id of this node and its epoch, which fence its transactions.
    pub fn node(&self) -> (NodeId, i64) {
        (self.epoch.id, self.epoch.epoch)
    }

    /// Whether the server permits `pg_walfile_name`. If not, changes that a failover of the database loses are not
    /// noticed if their numbers are used again.
    pub fn notices_failovers(&self) -> bool {
        self.timeline == Timeline::OfLog
    }

    /// Records that this node stops cleanly: it has no records that the database lacks, and can be
    /// removed without a loss.
    pub async fn leave(&self) -> Result<(), StoreError> {
        nodes::leave(&mut self.connection().await?, self.epoch).await
    }

    /// Closes the connections. Later calls return [`StoreError::Unavailable`]. Without
    /// [`leave`](Self::leave), the node looks as if it was killed.
    pub fn close(&self) {
        self.heartbeats.close();
        self.pool.close();
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        Connection::of(&self.pool).await
    }
}

/// Returns an error if the server acknowledges commits that a crash can lose.
async fn refuse_asynchronous_commits(
    connection: &mut Connection,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let tx = connection.view().await?;
    let sql = "SELECT current_setting('synchronous_commit') = 'off'";
    if tx.query_one("pg_settings", sql, &[]).await?.column(0)? {
        return Err(AsynchronousCommitError.into());
    }
    Ok(())
}

fn create_pool(
    address: &PostgresAddress,
    connections: usize,
) -> Result<Pool, Box<dyn std::error::Error + Send + Sync>> {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let tls = MakeConnector::new(address.trust().client_config());
    let manager = Manager::from_config(address.config().clone(), tls, config);
    Ok(Pool::builder(manager).max_size(connections).build()?)
}

/// Returns the cause of an error, which says more than that the store is unavailable.
fn cause(error: StoreError) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        StoreError::Unavailable(source) => source,
        other => other.into(),
    }
}
