//! The operations of the admin plane, and the tasks that apply what changes outside of this process.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use arc_swap::ArcSwap;

use super::background::reload_on_hangup;
use super::monitoring::Monitoring;
use super::{Core, Startup};
use crate::config::{RereadSettings, SettingsInUse};
use crate::control::reload::{CurrentSettings, SettingsReader};
use crate::control::{ApiAddress, Control, Parts};
use crate::fleet::Follower;
use crate::http::handler::EdgeState;
use crate::retention::RetentionSettings;
use store::TrafficReports;

/// Builds the operations of a gateway whose API listens on `listen`, and starts their tasks.
///
/// # Errors
/// The process cannot receive SIGHUP.
pub(super) fn start(
    core: &Core<'_>,
    monitoring: &Monitoring,
    listen: SocketAddr,
) -> Result<Arc<Control>> {
    let Core { startup, storage, accounting, history, upstreams, edge, reports, secrets } = core;
    let Startup { config, entropy, tls, lifecycle } = startup;
    let database = storage.shared.as_ref().map(|shared| shared.database.clone());
    let control = Arc::new(Control::new(Parts {
        store: storage.store.clone(),
        schema: storage.schema,
        backups: history.backups.clone(),
        scrapes: monitoring.scrapes.clone(),
        telemetry: reports.telemetry().cloned(),
        webhooks: monitoring.webhooks.clone(),
        captures: edge.captures.clone(),
        allocations: storage.allocations(),
        directory: accounting.directory.clone(),
        ledger: accounting.ledger.clone(),
        cancellations: edge.cancellations.clone(),
        credentials: upstreams.credentials.clone(),
        clock: storage.clock.clone(),
        entropy: entropy.clone(),
        registration: config.registration,
        registrations_per_hour: config.registrations_per_hour,
        trial_daily: config.trial_daily,
        operator_token: secrets.operator_token,
        tasks: lifecycle.change_tasks.clone(),
        data_dir: config.data_dir.clone(),
        seal_key: config.seal_key.clone(),
        tls: tls.clone(),
        read_settings: config.in_use.as_deref().map(|in_use| {
            settings_reader(in_use.clone(), edge.state.clone(), history.retention.clone())
        }),
        api: ApiAddress { public_url: config.public_url.clone(), listen },
        upstream_clients: upstreams.diagnostic_clients.clone(),
        limiter: accounting.limiter.clone(),
        traffic: accounting.traffic.clone(),
        traffic_reports: database.clone().map(|store| store as Arc<dyn TrafficReports>),
    }));

    let background = &lifecycle.background;
    background.spawn(|stop| control.clone().report_traffic_until(stop));
    if let Some(notifications) = database {
        let follower = Follower {
            notifications,
            control: control.clone(),
            recalls: accounting.recalls.clone(),
            entropy: entropy.clone(),
        };
        background.spawn_until_stop(follower.run());
    }
    if let Some(tls) = tls.clone() {
        background.spawn_until_stop(tls.follow());
    }
    background.spawn_until_stop(reload_on_hangup(control.clone())?);
    let reporting = control.clone();
    background.spawn(|stop| async move { reporting.report_refused_until(stop).await });
    Ok(control)
}

/// Returns the function that reads the settings for a reload. Those of `edge` and `retention` apply without the control plane.
fn settings_reader(
    in_use: SettingsInUse,
    edge: Arc<EdgeState>,
    retention: Arc<ArcSwap<RetentionSettings>>,
) -> SettingsReader {
    let in_use = Arc::new(ArcSwap::from_pointee(in_use));
    Arc::new(move || {
        let RereadSettings { live, changed, need_restart, in_use: new } =
            in_use.load_full().read_again()?;
        let (edge, retention, in_use) = (edge.clone(), retention.clone(), in_use.clone());
        Ok(CurrentSettings {
            registration: live.registration,
            registrations_per_hour: live.registrations_per_hour,
            trial_daily: live.trial_daily,
            applied: changed,
            need_restart,
            commit: Box::new(move || {
                edge.set_cors(live.cors);
                retention.store(Arc::new(live.retention));
                in_use.store(Arc::new(new));
            }),
        })
    })
}
