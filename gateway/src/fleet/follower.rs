//! Keeps the directory of this gateway up to date with the changes of others.
//!
//! A notification says that there is a change; which ones, the store knows. They are also asked for
//! each second, because a connection can be lost without notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use crate::clock::Entropy;
use crate::control::Control;
use domain::allocation::Recall;
use store::StoreError;
use store::fleet::{Notification, Notifications};

/// The longest time between two questions for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pauses before another connection for notifications is opened: doubled after each failure.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The follower of other gateways' changes.
pub struct Follower {
    /// The notifications.
    pub notifications: Arc<dyn Notifications>,
    /// Applies the changes.
    pub control: Arc<Control>,
    /// Receives what other gateways lack. If it is full, they ask again.
    pub recalls: mpsc::Sender<Recall>,
    /// Randomness, so that gateways do not reconnect together after a restart of the database.
    pub entropy: Arc<dyn Entropy>,
}

impl Follower {
    /// Applies changes as they come. Must run as long as the gateway serves.
    ///
    /// # Cancel safety
    /// Dropping the future stops the follower; changes are applied in full or again later.
    pub async fn run(self) {
        let noticed = Notify::new();
        tokio::join!(self.receive(&noticed), self.apply(&noticed));
    }

    async fn apply(&self, noticed: &Notify) {
        let mut is_failing = false;
        loop {
            _ = timeout(POLL_INTERVAL, noticed.notified()).await;
            match self.control.follow_changes().await {
                Ok(()) => is_failing = false,
                Err(error) => {
                    // Heartbeats tell how long this lasts.
                    if !std::mem::replace(&mut is_failing, true) {
                        let error: &dyn std::error::Error = &error;
                        tracing::warn!(error, "cannot read the changes of other gateways");
                    }
                }
            }
        }
    }

    async fn receive(&self, noticed: &Notify) {
        let mut pause = MIN_PAUSE;
        loop {
            let was_connected = AtomicBool::new(false);
            let notify = |notification| {
                was_connected.store(true, Ordering::Relaxed);
                match notification {
                    Notification::Changes => noticed.notify_one(),
                    Notification::Recall(recall) => _ = self.recalls.try_send(recall),
                }
            };
            log_loss(&self.notifications.watch(&notify).await);
            pause = if was_connected.into_inner() { MIN_PAUSE } else { MAX_PAUSE.min(pause * 2) };
            sleep(self.jittered(pause)).await;
        }
    }

    /// Returns a random duration between half of `pause` and `pause`.
    fn jittered(&self, pause: Duration) -> Duration {
        let mut random = [0; 4];
        self.entropy.fill(&mut random);
        let part = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
        pause.mul_f64(0.5 + part / 2.0)
    }
}

fn log_loss(error: &StoreError) {
    let error: &dyn std::error::Error = error;
    tracing::debug!(error, "the connection for notifications of changes was lost");
}
