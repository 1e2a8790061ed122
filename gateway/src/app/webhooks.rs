//! Starts the webhooks that the configuration names.

use std::sync::Arc;

use anyhow::{Context, Result};

use super::backend::host_name;
use super::lifecycle::BackgroundTasks;
use crate::clock::{Clock, Entropy};
use crate::config::Config;
use crate::directory::Directory;
use crate::ledger::Ledger;
use crate::upstream::UpstreamClients;
use crate::webhooks::{Watch, WatchParts, Webhooks};
use store::Store;

/// What webhooks tell of.
pub(super) struct Sources {
    pub(super) store: Arc<dyn Store>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) directory: Arc<Directory>,
    pub(super) upstream_clients: Arc<UpstreamClients>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
}

/// Starts the tasks of webhooks; `None` without webhooks.
///
/// # Errors
/// The URL of an endpoint cannot be used.
pub(super) fn start(
    config: &Config,
    sources: Sources,
    background: &BackgroundTasks,
) -> Result<Option<Arc<Webhooks>>> {
    let Some(settings) = &config.webhooks else { return Ok(None) };
    let Sources { store, ledger, directory, upstream_clients, clock, entropy } = sources;
    let gateway = match &config.node_name {
        Some(name) => name.as_str().to_owned(),
        // A name that is not usable for a node is good enough here.
        None => host_name().map_or_else(|_| "tollgate".to_owned(), |name| name.as_str().to_owned()),
    };
    let proxies = config.upstream_proxies.as_ref();
    let (webhooks, delivering) = Webhooks::new(settings, proxies, gateway, clock.clone(), entropy)
        .map_err(anyhow::Error::msg)
        .context("`webhook.urls` is not usable")?;
    let watch = Watch::new(WatchParts {
        webhooks: webhooks.clone(),
        config: settings.clone(),
        alerts: store,
        ledger,
        directory,
        upstream_clients,
        clock,
    });
    background.spawn(|stop| delivering.run(stop));
    background.spawn_until_stop(watch.run());
    Ok(Some(webhooks))
}
