//! Both sides of a take-over: the new process prepares everything that can fail and has the running gateway stop, which
//! serves until then.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::backend::check_state;
use crate::config::{AdminAddress, Config, SettingsSource};
use crate::listeners::Listeners;
use crate::take_over::{Offer, RunningGateway};
use crate::tls::ServerTls;

/// How often the address of the metrics is tried, and the pause between two attempts.
const METRICS_ATTEMPTS: u32 = 20;
const METRICS_PAUSE: Duration = Duration::from_millis(100);

/// Takes the listening sockets of the gateway that uses the data directory of `source`, and returns when it has ended.
/// Without one, binds the addresses of the settings.
///
/// # Errors
/// The settings, the certificate, the secrets or the database are not usable, or the running gateway listens on other
/// addresses than those of the settings: then it serves as before. The running gateway has not ended in time.
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
    let owns_admin_file = running.stop().await?;
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

/// Shuts down as soon as another process takes over from this one. Ends with the shutdown, so that the offer does not keep
/// the listening sockets open.
pub(super) async fn hand_over(
    offer: Offer,
    successor: Arc<OnceLock<UnixStream>>,
    handed_over: CancellationToken,
    shutdown: CancellationToken,
) {
    let Some(connection) = shutdown.run_until_cancelled(offer.taken()).await else { return };
    _ = successor.set(connection);
    handed_over.cancel();
    shutdown.cancel();
}
