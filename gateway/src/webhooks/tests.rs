//! Tests of queues and of endpoints that cannot be reached.

use super::queue::{MAX_OF_ACCOUNT, MAX_WAITING};
use super::*;
use crate::clock::SystemClock;
use crate::clock::testing::CountingEntropy;
use domain::alert::Alert;
use domain::id::{KeyId, UpstreamName};
use tokio_util::sync::CancellationToken;

fn webhooks(url: &str) -> (Arc<Webhooks>, DeliveryTask) {
    let config = WebhookConfig {
        urls: vec![WebhookUrl(url.parse().unwrap())],
        secret: SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(),
        events: [
            EventKind::BalanceLow,
            EventKind::KeyExpiring,
            EventKind::UpstreamDown,
            EventKind::LedgerResumed,
        ]
        .into(),
        balance_below: Nanos(1),
        expiring_within: Duration::ZERO,
    };
    let (clock, entropy) = (SystemClock::new(), CountingEntropy::default());
    let name = "gate".to_owned();
    Webhooks::new(&config, None, name, Arc::new(clock), Arc::new(entropy)).unwrap()
}

fn account(number: usize) -> AccountId {
    AccountId(uuid::Uuid::from_u128(number as u128))
}

fn balance_low(number: usize) -> Event {
    let (account, balance, bound) = (account(number), Nanos(0), Nanos(1));
    Event::Alert(Alert::BalanceLow { account, balance, bound })
}

fn key_expiring(number: usize, key: usize, expires_at: Timestamp) -> Event {
    let (account, key) = (account(number), KeyId::new(format!("{number}-{key}")));
    Event::Alert(Alert::KeyExpiring { account, key, expires_at })
}

/// Returns the messages in the order in which they are sent, each as the field `key` or `account` of its data.
fn order(webhooks: &Webhooks) -> Vec<String> {
    let queue = &webhooks.endpoints[0].queue;
    let messages = std::iter::from_fn(|| queue.try_next());
    let name = |message: Message| {
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        let data = &body["data"];
        data.get("key").unwrap_or(&data["account"]).as_str().unwrap().to_owned()
    };
    messages.map(name).collect()
}

/// Regression test: the messages about one account delayed those about others by as many attempts.
#[tokio::test]
async fn an_account_with_many_messages_does_not_delay_those_of_others() {
    let (webhooks, _task) = webhooks("http://127.0.0.1:9/");
    let at = Timestamp::UNIX_EPOCH;
    for key in 0..MAX_OF_ACCOUNT + 3 {
        webhooks.send(&key_expiring(1, key, at));
    }
    webhooks.send(&key_expiring(2, 0, at));
    assert_eq!(webhooks.counts().dropped, 3, "an account has a bounded number of places");
    let order = order(&webhooks);
    assert_eq!(order.len(), MAX_OF_ACCOUNT + 1);
    assert_eq!(order[..3], ["1-0", "2-0", "1-1"]);
}

#[tokio::test]
async fn a_message_replaces_one_about_the_same_subject_and_its_end_removes_it() {
    let (webhooks, _task) = webhooks("http://127.0.0.1:9/");
    for second in 0..5 {
        webhooks.send(&key_expiring(1, 0, Timestamp::from_second(second).unwrap()));
        webhooks.send(&key_expiring(1, 1, Timestamp::from_second(second).unwrap()));
    }
    webhooks.send(&balance_low(1));
    assert_eq!((webhooks.counts().waiting, webhooks.counts().dropped), (3, 0));
    let Event::Alert(alert) = balance_low(1) else { unreachable!("it is one") };
    webhooks.withdraw(&alert.id());
    let newest = webhooks.endpoints[0].queue.try_next().unwrap();
    let text = std::str::from_utf8(&newest.body).unwrap();
    assert!(text.contains("1970-01-01T00:00:04Z"), "{text}");
    assert_eq!(order(&webhooks), ["1-1"]);
}

#[test]
fn a_url_is_shown_without_its_path() {
    let url = WebhookUrl("https://hooks.example:8443/services/T0KEN?x=y".parse().unwrap());
    assert_eq!(format!("{url} {url:?}"), "https://hooks.example:8443 https://hooks.example:8443");
}

#[tokio::test]
async fn a_full_queue_drops_messages_and_counts_them() {
    let (webhooks, task) = webhooks("http://127.0.0.1:9/");
    for number in 0..MAX_WAITING + 3 {
        webhooks.send(&balance_low(number));
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

/// Regression test: the gateway's own events had the bound of one account, so those of 100 upstreams left no place for
/// those of the ledger.
#[tokio::test]
async fn the_ledger_has_a_place_and_upstreams_have_no_bound_of_an_account() {
    let (webhooks, _task) = webhooks("http://127.0.0.1:9/");
    for number in 0..=MAX_OF_ACCOUNT {
        webhooks.send(&Event::UpstreamDown(UpstreamName::new(format!("upstream-{number}"))));
    }
    assert_eq!(webhooks.counts().dropped, 0);
    for number in 0..MAX_WAITING {
        webhooks.send(&balance_low(number));
    }
    let before = webhooks.counts();
    assert_eq!(before.waiting, MAX_WAITING as u64, "it is full");
    webhooks.send(&Event::LedgerResumed);
    webhooks.send(&Event::LedgerResumed);
    let counts = webhooks.counts();
    assert_eq!((counts.waiting, counts.dropped), (before.waiting + 1, before.dropped));
    let first = webhooks.endpoints[0].queue.try_next().unwrap();
    assert_eq!(first.kind, EventKind::LedgerResumed);
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

/// Regression test: a message that an endpoint refused was sent again until it was an hour old, before any other one.
#[tokio::test(start_paused = true)]
async fn a_refused_message_keeps_no_other_one_from_being_sent() {
    let (webhooks, _task) = webhooks("http://127.0.0.1:9/");
    let queue = &webhooks.endpoints[0].queue;
    webhooks.send(&balance_low(1));
    webhooks.send(&balance_low(2));
    let refused = queue.next().await;
    let due = Instant::now() + Duration::from_mins(1);
    assert!(queue.push_failed(refused.clone(), due).is_none());
    assert_ne!(queue.next().await.id, refused.id);
    assert!(Instant::now() < due);
    assert_eq!(queue.next().await.id, refused.id);
    assert!(Instant::now() >= due);
}

#[tokio::test]
async fn a_refused_message_is_not_sent_again_once_it_is_out_of_date() {
    let (webhooks, _task) = webhooks("http://127.0.0.1:9/");
    let queue = &webhooks.endpoints[0].queue;
    let end = |message: &Message| match &message.subject {
        Subject::Alert(id) => queue.withdraw(id),
        other => panic!("{other:?}"),
    };
    // The condition ends during the attempt, and then while the message waits for the next one.
    webhooks.send(&balance_low(1));
    let sent = queue.next().await;
    end(&sent);
    assert!(queue.push_failed(sent.clone(), Instant::now()).is_none());
    assert_eq!(queue.waiting(), 0);
    webhooks.send(&balance_low(1));
    let sent = queue.next().await;
    assert!(queue.push_failed(sent.clone(), Instant::now()).is_none());
    assert_eq!(queue.waiting(), 1);
    end(&sent);
    assert_eq!(queue.waiting(), 0);
    // A newer message comes about the same subject.
    webhooks.send(&balance_low(1));
    let sent = queue.next().await;
    webhooks.send(&balance_low(1));
    assert!(queue.push_failed(sent.clone(), Instant::now()).is_none());
    assert_ne!(queue.next().await.id, sent.id);
    assert_eq!(queue.waiting(), 0);
}
