//! Honest requests beside an attack, and how long they take.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::{Client, Shape};

/// The pause of an honest client between two requests.
const PAUSE: Duration = Duration::from_millis(20);

/// Measurements of honest requests.
#[derive(Default)]
pub(super) struct Latencies {
    pub(super) served: Vec<Duration>,
    pub(super) failed: usize,
}

impl Latencies {
    pub(super) fn median(&self) -> Duration {
        let mut sorted = self.served.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

/// Sends simple requests for this duration, at least one, and calls `watch` after each.
pub(super) async fn ask_for(client: &Client, duration: Duration, watch: impl FnMut()) -> Latencies {
    let began = Instant::now();
    ask_while(client, || began.elapsed() < duration, watch).await
}

/// Sends simple requests while `is_wanted`, at least one, and calls `watch` after each.
pub(super) async fn ask_while(
    client: &Client,
    is_wanted: impl Fn() -> bool,
    mut watch: impl FnMut(),
) -> Latencies {
    let mut latencies = Latencies::default();
    loop {
        let asked = Instant::now();
        match client.send_request(Shape::Chat, "an honest question", None).await {
            Some(seen) if seen.status == 200 => latencies.served.push(asked.elapsed()),
            _ => latencies.failed += 1,
        }
        watch();
        if !is_wanted() {
            return latencies;
        }
        sleep(PAUSE).await;
    }
}
