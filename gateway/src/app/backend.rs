//! Opens the store that the configuration names.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use tokio::time::timeout;
use uuid::Uuid;

use super::upgrade;
use crate::clock::{Clock, Entropy, SystemEntropy};
use crate::config::{Config, StoreConfig};
use crate::control::bootstrap::{self, BootstrapError};
use crate::data_dir::{self, DATABASE};
use crate::secrets::file;
use crate::tls::ServerTls;
use domain::node::{NodeId, NodeName};
use store::fleet::JoiningNode;
use store::postgres::{PostgresAddress, PostgresStore};
use store::sqlite::SqliteStore;
use store::{Allocations, Schema, Store, StoreError};

/// The file with the id of the data directory, by which a database recognises its gateway.
const NODE_FILE: &str = "node.id";

/// How long a stop waits for the database to take back what this gateway has.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The store of a gateway.
#[derive(Clone)]
pub(super) enum Backend {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Backend {
    /// Opens the store, after a check that the data directory has not lost its database. `listen` is
    /// the address of the API.
    pub(super) async fn open(
        config: &Config,
        listen: SocketAddr,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<Self> {
        let dir = &config.data_dir;
        match &config.store {
            StoreConfig::Sqlite => {
                data_dir::check(dir)?;
                upgrade::copy_before(dir)?;
                let opened = SqliteStore::open_for(&dir.join(DATABASE), config.durability)?;
                Ok(Self::Sqlite(Arc::new(opened)))
            }
            StoreConfig::Postgres(address) => {
                let id = || entropy.uuid(clock.now());
                let (node, opened) = open_postgres(config, address, listen, id).await?;
                tracing::info!(store = %address, node = %node.name, "connected to the database");
                Ok(Self::Postgres(Arc::new(opened)))
            }
        }
    }

    /// Returns the schema that this gateway uses.
    pub(super) fn schema(&self) -> Schema {
        match self {
            Self::Sqlite(_) => store::sqlite::SCHEMA,
            Self::Postgres(_) => store::postgres::SCHEMA,
        }
    }

    /// Returns the store.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Postgres(store) => store.clone(),
        }
    }

    /// Returns the store that several gateways share; `None` if only this one can use it.
    pub(super) fn shared(&self) -> Option<Arc<PostgresStore>> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => Some(store.clone()),
        }
    }

    /// Gives back what this gateway has of shared balances and limits, and leaves the other gateways.
    ///
    /// The `waiting` records that the store does not have are paid from what is allocated to this gateway. Others
    /// would use the same amounts if it were given back, and an operator could remove the node although its journal
    /// has these records. With some, the node therefore stops as if it was killed.
    pub(super) async fn leave(&self, waiting: u64) {
        let Self::Postgres(store) = self else { return };
        if waiting > 0 {
            tracing::warn!(
                waiting,
                "request records are only in the journal; start this gateway again, so that they are stored and \
                 other gateways get its parts of balances and limits"
            );
            return;
        }
        let leaving = async {
            store.give_back_all().await?;
            store.leave().await
        };
        let left = timeout(LEAVE_TIMEOUT, leaving).await;
        let left = left.unwrap_or_else(|elapsed| Err(StoreError::Unavailable(elapsed.into())));
        if let Err(error) = left {
            tracing::warn!(%error, "other gateways get this one's parts of balances and limits after its next start");
        }
    }

    /// Waits for queued writes and closes the store.
    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close(),
        }
    }
}

/// Checks that this program supports the schema of the database that the configuration names, without changing it. A
/// database that is missing or empty has none.
///
/// # Errors
/// The schema is newer, or the database cannot be read.
pub(super) async fn check_schema(config: &Config) -> Result<()> {
    match &config.store {
        StoreConfig::Sqlite => SqliteStore::upgrade(&config.data_dir.join(DATABASE)).map(drop)?,
        StoreConfig::Postgres(address) => PostgresStore::upgrade(address).await.map(drop)?,
    }
    Ok(())
}

/// Checks the database and the secrets of a gateway that has run with the configuration, without changing them: the
/// schema is supported, the secret files can be read, and the key of stored secrets is the one that encrypted them.
///
/// # Errors
/// One of them is not usable.
pub(super) async fn check_state(config: &Config) -> Result<()> {
    check_schema(config).await?;
    let (dir, source) = (&config.data_dir, &config.seal_key);
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let keys = bootstrap::check_secrets(dir, source, &entropy).await?;
    let is_right = match &config.store {
        StoreConfig::Sqlite => {
            let sealed = SqliteStore::sealed_secrets(&dir.join(DATABASE))?;
            // One that is damaged does not say that the key is wrong.
            sealed.is_empty() || sealed.iter().any(|sealed| keys.opens(sealed))
        }
        StoreConfig::Postgres(address) => {
            let claimed = PostgresStore::seal_fingerprint(address).await?;
            claimed.is_none_or(|claimed| keys.preferring(&claimed).is_some())
        }
    };
    let key = || source.describe(dir);
    if is_right { Ok(()) } else { Err(BootstrapError::WrongSealKey { key: key() }.into()) }
}

/// Validates what a start with the configuration would use: the settings, the certificate and, if the gateway has run
/// before, its database and its secrets. Returns what was found, for the user.
///
/// # Errors
/// One of them is not usable.
pub async fn check(config: &Config) -> Result<String> {
    let mut found = "the settings are valid".to_owned();
    if let Some(files) = config.tls.clone() {
        ServerTls::read(files, config.admin_client_ca.clone())?;
        found.push_str(", and the certificate can be used");
    }
    // A gateway with PostgreSQL has its secrets there, too.
    let has_run = match &config.store {
        StoreConfig::Sqlite => config.data_dir.join(DATABASE).exists(),
        StoreConfig::Postgres(_) => config.data_dir.join(NODE_FILE).exists(),
    };
    if has_run {
        check_state(config).await?;
        found.push_str("; the database and the key of its secrets can be used");
    }
    Ok(found)
}

async fn open_postgres(
    config: &Config,
    address: &PostgresAddress,
    listen: SocketAddr,
    id: impl FnOnce() -> Uuid,
) -> Result<(JoiningNode, PostgresStore)> {
    let dir = &config.data_dir;
    let is_uninitialized = PostgresStore::is_uninitialized(address).await?;
    data_dir::check_external(dir, &address.to_string(), is_uninitialized)?;
    let node = JoiningNode {
        id: node_id(dir, id)?,
        name: config.node_name.clone().map_or_else(host_name, Ok)?,
        version: env!("CARGO_PKG_VERSION"),
        address: listen.to_string(),
        patience: config.store_patience,
    };
    let opened = PostgresStore::open(address, &node).await?;
    if !opened.notices_failovers() {
        tracing::warn!(
            "the database does not permit `pg_walfile_name`; restart all gateways after a failover of it"
        );
    }
    Ok((node, opened))
}

fn node_id(dir: &Path, id: impl FnOnce() -> Uuid) -> Result<NodeId> {
    let reading = || format!("reading `{}`", dir.join(NODE_FILE).display());
    let node = file::read_or_create(dir, NODE_FILE, || id().to_string().into());
    let node = node.with_context(reading)?;
    Ok(NodeId(Uuid::try_parse(node.expose_secret()).with_context(reading)?))
}

/// Returns the name of this host as that of a node.
pub(super) fn host_name() -> Result<NodeName> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    NodeName::parse(&name)
        .with_context(|| format!("the host name `{name}` is not usable; set `node_name`"))
}
