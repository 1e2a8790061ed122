//! Changes that other gateways made.

use secrecy::ExposeSecret;
use store::fleet::UnappliedChanges;

use super::super::keys::NewKey;
use super::*;
use domain::account_name::AccountName;
use domain::key::KeyDigest;

/// Regression test: keys and accounts that a failover of the database had lost remained in use.
#[tokio::test]
async fn what_the_database_has_lost_is_removed() {
    let bench = Bench::new(Registration::Open).await;
    let Control { store, directory, .. } = &*bench.control;
    let ann = bench.member("ann").await;
    let create = |caller, label: &str| {
        let key = NewKey { label: label.into(), ..NewKey::default() };
        let control = bench.control.clone();
        async move {
            let (_, secret) = control.create_key(caller, key).await.unwrap();
            KeyDigest::of(secret.expose_secret())
        }
    };
    let kept = create(&ann, "kept").await;
    let database = store.load().await.unwrap();
    let bob = bench.member("bob").await;
    let lost = [create(&ann, "lost").await, create(&bob, "lost").await];
    assert!(lost.iter().all(|key| directory.find_key(key).is_some()));

    let changes = UnappliedChanges {
        is_complete: true,
        accounts: database.accounts,
        people: database.people,
        keys: database.keys,
        ..UnappliedChanges::default()
    };
    bench.control.apply_to_directory(changes).await;
    assert!(lost.iter().all(|key| directory.find_key(key).is_none()));
    assert!(directory.find_account_named("bob").is_none());
    assert!(!directory.has_name_like(&AccountName::parse("bob").unwrap(), None), "it is free");
    assert!(directory.find_key(&kept).is_some());
    assert!(directory.find_account_named("ann").is_some());

    bench.control.apply_to_directory(UnappliedChanges::default()).await;
    assert!(directory.find_key(&kept).is_some(), "no change is no loss");
}
