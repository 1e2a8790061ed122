//! Opens the store that the configuration names, and keeps the right to write to it.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::clock::{Clock, Entropy};
use crate::config::{Config, StoreConfig};
use crate::data_dir::{self, DATABASE};
use crate::secrets::file;
use store::postgres::{LeaseLost, PostgresAddress, PostgresStore};
use store::sqlite::SqliteStore;
use store::{Allocations, Store};

/// The file with the id of the data directory, by which a database recognises its gateway.
const NODE_FILE: &str = "node.id";

/// The store of a gateway.
#[derive(Clone)]
pub(super) enum Backend {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Backend {
    /// Opens the store, after a check that the data directory has not lost its database.
    pub(super) async fn open(
        config: &Config,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<Self> {
        let dir = &config.data_dir;
        match &config.store {
            StoreConfig::Sqlite => {
                data_dir::check(dir)?;
                let opened = SqliteStore::open_for(&dir.join(DATABASE), config.durability)?;
                Ok(Self::Sqlite(Arc::new(opened)))
            }
            StoreConfig::Postgres(address) => {
                let id = || entropy.uuid(clock.now());
                let opened = open_postgres(dir, address, id).await?;
                tracing::info!(store = %address, "connected to the database");
                Ok(Self::Postgres(Arc::new(opened)))
            }
        }
    }

    /// Returns the store.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Postgres(store) => store.clone(),
        }
    }

    /// Returns the pools that several gateways share; `None` if only one gateway can use the store.
    pub(super) fn allocations(&self) -> Option<Arc<dyn Allocations>> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => Some(store.clone()),
        }
    }

    /// Completes when this gateway may no longer use the store. Must run as long as it does.
    pub(super) async fn keep_lease(&self) -> LeaseLost {
        match self {
            // The lock of the data directory lasts as long as the process.
            Self::Sqlite(_) => pending().await,
            Self::Postgres(store) => store.keep_lease().await,
        }
    }

    /// Waits for queued writes and closes the store.
    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}

async fn open_postgres(
    dir: &Path,
    address: &PostgresAddress,
    id: impl FnOnce() -> Uuid,
) -> Result<PostgresStore> {
    let is_uninitialized = PostgresStore::is_uninitialized(address).await?;
    data_dir::check_external(dir, &address.to_string(), is_uninitialized)?;
    let reading = || format!("reading `{}`", dir.join(NODE_FILE).display());
    let node = file::read_or_create(dir, NODE_FILE, || id().to_string().into());
    let node = node.with_context(reading)?;
    let node = Uuid::try_parse(node.expose_secret()).with_context(reading)?;
    Ok(PostgresStore::open(address, node).await?)
}
