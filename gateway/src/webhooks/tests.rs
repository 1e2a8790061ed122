//! Tests of queues and of endpoints that cannot be reached.

use super::*;
use crate::clock::SystemClock;
use crate::clock::testing::CountingEntropy;
use tokio_util::sync::CancellationToken;

fn webhooks(url: &str) -> (Arc<Webhooks>, DeliveryTask) {
    let config = WebhookConfig {
        urls: vec![WebhookUrl(url.parse().unwrap())],
        secret: SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(),
        events: [EventKind::LedgerResumed].into(),
        balance_below: Nanos(1),
        expiring_within: Duration::ZERO,
    };
    let (clock, entropy) = (SystemClock::new(), CountingEntropy::default());
    let name = "gate".to_owned();
    Webhooks::new(&config, None, name, Arc::new(clock), Arc::new(entropy)).unwrap()
}

#[test]
fn a_url_is_shown_without_its_path() {
    let url = WebhookUrl("https://hooks.example:8443/services/T0KEN?x=y".parse().unwrap());
    assert_eq!(format!("{url} {url:?}"), "https://hooks.example:8443 https://hooks.example:8443");
}

#[tokio::test]
async fn a_full_queue_drops_messages_and_counts_them() {
    let (webhooks, task) = webhooks("http://127.0.0.1:9/");
    for _ in 0..MAX_WAITING + 3 {
        webhooks.send(&Event::LedgerResumed);
        webhooks.send(&Event::LedgerStopped("not one of those that are sent".to_owned()));
    }
    let counts = webhooks.counts();
    assert_eq!((counts.dropped, counts.waiting), (3, MAX_WAITING as u64));
    // A stop drops the rest.
    let stop = CancellationToken::new();
    stop.cancel();
    task.run(stop).await;
    let counts = webhooks.counts();
    assert_eq!((counts.dropped, counts.waiting), (3 + MAX_WAITING as u64, 0));
    assert_eq!(webhooks.statuses()[0].1.dropped, counts.dropped);
}

/// Timers that are due run while nothing else does, so an attempt fails because it is refused or because it takes too
/// long.
#[tokio::test(start_paused = true)]
async fn a_message_that_no_endpoint_takes_is_given_up_after_an_hour() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let (webhooks, task) = webhooks(&format!("http://{closed}/hook"));
    webhooks.send(&Event::LedgerResumed);
    let started = Instant::now();
    let stop = CancellationToken::new();
    let giving_up = async {
        while webhooks.counts().dropped == 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        stop.cancel();
    };
    tokio::join!(task.run(stop.clone()), giving_up);
    let elapsed = started.elapsed();
    assert!(elapsed > Duration::from_mins(50) && elapsed < Duration::from_mins(62), "{elapsed:?}");
    let counts = webhooks.counts();
    assert!(counts.failed > 10 && counts.delivered == 0, "{counts:?}");
    assert!(webhooks.statuses()[0].1.failure.is_some());
}
