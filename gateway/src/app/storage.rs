//! The store of a gateway, its place among the gateways that share the store, and the clock.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};

use super::Startup;
use super::backend::Backend;
use super::lifecycle::Lifecycle;
use crate::clock::Clock;
use crate::config::StoreConfig;
use crate::fleet::{Heartbeats, SharedClock, StoreContact};
use crate::retention::prepare_days;
use store::fleet::Fenced;
use store::postgres::PostgresStore;
use store::{Allocations, IdempotencyClaims, Schema, Store};

/// The open store.
pub(super) struct Storage {
    backend: Backend,
    pub(super) store: Arc<dyn Store>,
    pub(super) schema: Schema,
    /// `None` if only this gateway can use the store.
    pub(super) shared: Option<SharedStore>,
    /// The idempotency keys that gateways share; `None` if there is nothing to share, because they are ignored or only
    /// this gateway can use the store.
    pub(super) idempotency_claims: Option<Arc<dyn IdempotencyClaims>>,
    /// Whether requests may be served from memory.
    pub(super) contact: Arc<StoreContact>,
    /// The clock of the database if the store is shared, and otherwise that of this host.
    pub(super) clock: Arc<dyn Clock>,
    fenced: Arc<OnceLock<Fenced>>,
}

/// A store that several gateways use.
pub(super) struct SharedStore {
    pub(super) database: Arc<PostgresStore>,
    pub(super) heartbeats: Arc<Heartbeats>,
}

impl Storage {
    /// Opens the store. If it is shared, sends heartbeats and follows its clock from now on; a process that is fenced
    /// shuts down. `listen` is the address of the API, and `host_clock` the clock of this host.
    ///
    /// # Errors
    /// The store is not usable.
    pub(super) async fn open(
        startup: &Startup<'_>,
        listen: SocketAddr,
        host_clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let Startup { config, entropy, lifecycle, .. } = startup;
        let is_shared = matches!(config.store, StoreConfig::Postgres(_));
        let contact = Arc::new(StoreContact::new(is_shared.then_some(config.store_patience)));
        let backend = Backend::open(config, listen, &*host_clock, &**entropy).await?;
        let fenced = Arc::<OnceLock<Fenced>>::default();
        let (mut shared, mut clock) = (None, host_clock);
        if let Some(database) = backend.shared() {
            let heartbeats =
                Heartbeats::new(database.clone(), contact.clone(), config.store_patience);
            let heartbeats = Arc::new(heartbeats);
            lifecycle.background.spawn_until_stop(send_heartbeats(
                heartbeats.clone(),
                fenced.clone(),
                lifecycle,
            ));
            let reading = SharedClock::read(clock, database.clone()).await;
            let shared_clock = Arc::new(reading.context("reading the clock of the database")?);
            lifecycle.background.spawn_until_stop(shared_clock.clone().run());
            (shared, clock) = (Some(SharedStore { database, heartbeats }), shared_clock);
        }
        prepare_days(&*backend.store(), config.records).await;
        let with_replay = backend.shared().filter(|_| !config.idempotency.is_zero());
        Ok(Self {
            store: backend.store(),
            schema: backend.schema(),
            shared,
            idempotency_claims: with_replay.map(|store| store as Arc<dyn IdempotencyClaims>),
            contact,
            clock,
            fenced,
            backend,
        })
    }

    /// Returns the balances and limits that gateways share; `None` if only this one can use the store.
    pub(super) fn allocations(&self) -> Option<Arc<dyn Allocations>> {
        self.shared.as_ref().map(|shared| shared.database.clone() as Arc<dyn Allocations>)
    }

    /// Gives back what this gateway has of shared balances and limits, and leaves the other gateways. See
    /// [`Backend::leave`] about the `waiting` records.
    pub(super) async fn leave(&self, waiting: u64) {
        self.backend.leave(waiting).await;
    }

    /// Waits for queued writes and closes the store.
    pub(super) async fn close(&self) {
        self.backend.close().await;
    }

    /// Checks that this process was not fenced.
    ///
    /// # Errors
    /// It was, for this reason.
    pub(super) fn ensure_not_fenced(&self) -> Result<(), Fenced> {
        self.fenced.get().map_or(Ok(()), |reason| Err(*reason))
    }
}

/// Sends heartbeats until this process is fenced, which then shuts down.
fn send_heartbeats(
    heartbeats: Arc<Heartbeats>,
    fenced: Arc<OnceLock<Fenced>>,
    lifecycle: &Lifecycle,
) -> impl Future<Output = ()> + Send + 'static {
    let (shutdown, cut_off) = (lifecycle.shutdown.clone(), lifecycle.cut_off.clone());
    async move {
        let reason = heartbeats.run().await;
        tracing::error!(event = "node_fenced", %reason, "stopping, because this process may not use the database");
        _ = fenced.set(reason);
        // Without the delay in which a shutdown still accepts requests.
        cut_off.cancel();
        shutdown.cancel();
    }
}
