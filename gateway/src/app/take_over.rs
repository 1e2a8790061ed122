//! Both sides of a take-over: the new process prepares everything that can fail and has the running gateway stop, which
//! serves until then.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::backend::check_state;
use super::lifecycle::Lifecycle;
use crate::config::{AdminAddress, Config, SettingsSource, StoreConfig};
use crate::data_dir;
use crate::listeners::Listeners;
use crate::take_over::{Offer, OfferSettings, RunningGateway, TakeOver};
use crate::tls::ServerTls;

/// How often the address of the metrics is tried, and the pause between two attempts.
const METRICS_ATTEMPTS: u32 = 20;
const METRICS_PAUSE: Duration = Duration::from_millis(100);

/// Signals that another process replaces this one.
#[derive(Clone, Default)]
pub(super) struct Successor {
    /// Cancelled before the shutdown begins if another process accepts the next connections.
    pub(super) accepts: CancellationToken,
    /// Cancelled if it also accounts for the requests in progress.
    pub(super) adopts: CancellationToken,
}

/// The lock of the data directory, and the connection to the process that waits for it in a take-over.
pub(super) struct DataDirLock {
    // Invariant: the fields are dropped in this order, because the end of the connection says that the lock was released.
    _lock: File,
    successor: Arc<OnceLock<UnixStream>>,
}

/// Takes the listening sockets of the gateway that uses the data directory of `source`, and returns when it has released
/// that directory.
/// Without one, binds the addresses of the settings.
///
/// # Errors
/// The settings, the certificate, the secrets or the database are not usable, or the running gateway listens on other
/// addresses than those of the settings: then it serves as before. The running gateway has not released the directory in time.
pub async fn take_over(mut source: SettingsSource) -> Result<(Config, Listeners)> {
    let config = source.clone().resolve()?;
    let Some((running, sockets)) = RunningGateway::find(&config.data_dir).await? else {
        tracing::info!(data_dir = %config.data_dir.display(), "no gateway to take over from");
        let listeners = Listeners::bind(config.listen, config.admin_listen.clone())?;
        let listeners = listeners.with_metrics(config.metrics_listen)?;
        return Ok((config, listeners));
    };
    sockets.set_addresses(&mut source.flags).context("reading the addresses of sockets")?;
    let taken = source.resolve()?;
    ensure_same_addresses(&config, &taken)?;
    let Config { tls, admin_client_ca, .. } = taken.clone();
    tls.map(|files| ServerTls::read(files, admin_client_ca)).transpose()?;
    check_state(&taken).await?;
    let listeners = Listeners::bind_rest(sockets, taken.listen, taken.admin_listen.clone())?;
    let adopts_requests = matches!(taken.store, StoreConfig::Sqlite);
    let owns_admin_file = running.stop(adopts_requests).await?;
    if let Some(file) = listeners.admin.file() {
        file.set_ours(owns_admin_file);
    }
    // The port of the metrics was the other process's until now. Clients are served also without metrics.
    let mut attempts = 1;
    let listeners = loop {
        match Listeners::bind_metrics(taken.metrics_listen) {
            Ok(metrics) => break Listeners { metrics, ..listeners },
            // The kernel may still be closing the descriptors of a process that was killed.
            Err(_) if attempts < METRICS_ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(METRICS_PAUSE).await;
            }
            Err(error) => {
                let error: &dyn std::error::Error = &*error;
                tracing::error!(event = "metrics_unavailable", error, "serving without metrics");
                break listeners;
            }
        }
    };
    Ok((taken, listeners))
}

/// Fails unless the running gateway listens where the settings say. Port zero is any port.
fn ensure_same_addresses(settings: &Config, running: &Config) -> Result<()> {
    let is_same = |wanted: SocketAddr, found: SocketAddr| {
        wanted.ip() == found.ip() && [0, found.port()].contains(&wanted.port())
    };
    let is_same_admin = match (&settings.admin_listen, &running.admin_listen) {
        (AdminAddress::Tcp(wanted), AdminAddress::Tcp(found)) => is_same(*wanted, *found),
        (wanted, found) => wanted == found,
    };
    let names = [
        ("listen", is_same(settings.listen, running.listen), running.listen.to_string()),
        ("admin_listen", is_same_admin, running.admin_listen.to_string()),
    ];
    for (name, is_same, found) in names {
        ensure!(
            is_same,
            "the running gateway listens on {found}, which `{name}` does not name: set it, or stop that gateway and \
             start this one without --take-over"
        );
    }
    Ok(())
}

// === impl DataDirLock ===

impl DataDirLock {
    /// Makes `dir` if it is missing, and locks it.
    ///
    /// # Errors
    /// The directory cannot be used, or another process uses it.
    pub(super) async fn acquire(dir: &Path) -> Result<Self> {
        data_dir::make(dir)?;
        Ok(Self { _lock: data_dir::lock(dir).await?, successor: Arc::default() })
    }

    /// Offers the listening sockets to the process that is to replace this one, which shuts down as soon as they are
    /// taken.
    pub(super) fn offer(
        &self,
        config: &Config,
        listeners: &Listeners,
        lifecycle: &Lifecycle,
    ) -> Successor {
        let successor = Successor::default();
        let settings = OfferSettings {
            drain: config.drain,
            hands_over_requests: matches!(config.store, StoreConfig::Sqlite),
        };
        match Offer::new(&config.data_dir, listeners, settings) {
            Ok(offer) => {
                let (connection, successor) = (self.successor.clone(), successor.clone());
                let shutdown = lifecycle.shutdown.clone();
                // Ends with the shutdown, so that the offer does not keep the listening sockets open.
                lifecycle.background.spawn(|_| async move {
                    let taken = shutdown.run_until_cancelled(offer.taken()).await;
                    let Some(TakeOver { connection: taken, adopts_requests }) = taken else {
                        return;
                    };
                    _ = connection.set(taken);
                    successor.accepts.cancel();
                    if adopts_requests {
                        successor.adopts.cancel();
                    }
                    shutdown.cancel();
                });
            }
            Err(error) => {
                tracing::warn!(event = "take_over_unavailable", %error, "another process cannot take over from this one");
            }
        }
        successor
    }
}
