//! Retention: the data that it removes, and the data that it keeps.

use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use tests::{Home, ManualClock, Product, Session, question};

use crate::ledger::{proof, send_requests};

#[tokio::test]
async fn retention_removes_old_records_and_keeps_sums_and_money() {
    let clock = ManualClock::at("2026-11-20T10:30:00Z");
    let mut home = Home::new(|setup| setup.clock = Arc::new(clock.clone()));
    let product = home.start().await;
    let alice = product.member("alice").await;
    send_requests(&product, &alice, 4).await;
    clock.advance(Duration::from_hours(48));
    send_requests(&product, &alice, 2).await;
    let balance = alice.account().await.balance_usd;
    let summary = async |product: &Product| {
        let request = v1::SummarizeUsageRequest::default();
        product.operator().await.usage().summarize_usage(request).await.unwrap().into_inner()
    };
    let sums = summary(&product).await;
    product.stop().await;
    trust(&home, "2026-11-22T10:30:00Z");

    home.setup.config.records.keep_for = Some(Duration::from_hours(24));
    let product = home.start().await;
    let alice = Session::sign_in(&product.admin, "alice").await;
    let left = async || alice.records(0).await.len();
    tests::with_timeout("the removal of old records", async { while left().await != 2 {} }).await;
    assert_eq!(summary(&product).await, sums);
    assert_eq!(alice.account().await.balance_usd, balance);
    let proof = proof(&product).await;
    assert_eq!((proof.ok, proof.requests, proof.charges), (true, 2, 6), "{proof:?}");
    send_requests(&product, &alice, 1).await;
    assert_eq!(left().await, 3);
}

#[tokio::test]
async fn revoked_keys_are_removed_after_a_time_if_they_were_never_used() {
    let clock = ManualClock::at("2026-11-20T10:30:00Z");
    let mut home = Home::new(|setup| setup.clock = Arc::new(clock.clone()));
    let product = home.start().await;
    let alice = product.member("alice").await;
    let (used, unused, usable) = (alice.key().await, alice.key().await, alice.key().await);
    let asked = product.chat(&used.secret, &question("sim-chat", "hi")).answer().await;
    assert_eq!(asked.status, 200);
    for id in [&used.id, &unused.id] {
        let request = v1::RevokeKeyRequest { id: id.clone() };
        alice.keys().revoke_key(request).await.unwrap();
    }
    product.stop().await;
    clock.advance(Duration::from_hours(25));
    trust(&home, "2026-11-21T11:30:00Z");

    home.setup.config.unused_keys = Some(Duration::from_hours(24));
    let product = home.start().await;
    let alice = Session::sign_in(&product.admin, "alice").await;
    let ids = async || -> Vec<String> {
        let keys = alice.keys().list_keys(v1::ListKeysRequest::default()).await.unwrap();
        let mut ids: Vec<_> = keys.into_inner().keys.into_iter().map(|key| key.id).collect();
        ids.sort();
        ids
    };
    tests::with_timeout("the removal of the key", async { while ids().await.len() > 2 {} }).await;
    let mut left = [used.id, usable.id];
    left.sort();
    assert_eq!(ids().await, left);
    assert!(proof(&product).await.ok);
}

/// Has a stopped gateway trust the time `at`, as if it had run until then: after a jump of the clock, retention waits for
/// an hour.
pub(crate) fn trust(home: &Home, at: &str) {
    let database = rusqlite::Connection::open(home.data_dir().join("tollgate.db")).unwrap();
    let sql = "INSERT INTO meta (name, value) VALUES ('trusted_time', ?) \
        ON CONFLICT DO UPDATE SET value = excluded.value";
    assert_eq!(database.execute(sql, [at]).unwrap(), 1);
}
