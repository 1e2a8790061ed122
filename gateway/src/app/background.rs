//! Background tasks that tie modules together, and the process to its service manager.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use super::lifecycle::Lifecycle;
use crate::capture::Captures;
use crate::clock::Clock;
use crate::control::Control;
use crate::directory::Directory;
use crate::service_manager;
use crate::upstream::UpstreamClients;

/// Drops the clients of upstreams that were changed or removed, whenever the catalogue changes.
pub(super) async fn drop_removed_clients(
    directory: Arc<Directory>,
    all_clients: Vec<Arc<UpstreamClients>>,
) {
    let mut changes = directory.catalogue_changes();
    while changes.changed().await.is_ok() {
        let catalogue = directory.catalogue().clone();
        for clients in &all_clients {
            clients.retain(&catalogue.upstreams);
        }
    }
}

/// Forgets captured requests that have expired.
pub(super) async fn purge_captures(captures: Arc<Captures>, clock: Arc<dyn Clock>) {
    let mut minutes = tokio::time::interval(Duration::from_mins(1));
    loop {
        minutes.tick().await;
        captures.purge(clock.now());
    }
}

/// Reads files again whenever the process gets SIGHUP.
pub(super) fn reload_on_hangup(control: Arc<Control>) -> Result<impl Future<Output = ()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        while hangup.recv().await.is_some() {
            service_manager::reloading();
            if let Err(error) = control.reload_files(None).await {
                tracing::warn!(event = "reload_failed", %error, "the reload failed");
            }
            service_manager::ready();
        }
    })
}

/// Reports to the service manager that requests are served, that this process still runs, and when its shutdown begins.
pub(super) fn report_state(lifecycle: &Lifecycle) {
    service_manager::ready();
    lifecycle.background.spawn_until_stop(service_manager::feed_watchdog());
    let shutdown = lifecycle.shutdown.clone();
    lifecycle.background.spawn(|_| async move {
        shutdown.cancelled().await;
        service_manager::stopping();
    });
}
