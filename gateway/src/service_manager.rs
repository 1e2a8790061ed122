//! Reports the state of the process to systemd (`sd_notify(3)`). Without `NOTIFY_SOCKET`, nothing happens.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// Reports that requests are served, or that a reload has ended.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports the begin of a reload. [`ready`] ends it.
pub(crate) fn reloading() {
    // `Type=notify-reload` needs the time.
    let now = NotifyState::monotonic_usec_now().ok();
    notify(&[Some(NotifyState::Reloading), now].into_iter().flatten().collect::<Vec<_>>());
}

/// Reports the begin of the shutdown.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that the main thread still runs, twice as often as `WatchdogSec=` demands; it accepts connections and serves
/// the admin plane. Returns at once if there is no watchdog.
pub(crate) async fn feed_watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let mut ticks = tokio::time::interval((limit / 2).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot report the state of the process to systemd");
    }
}
