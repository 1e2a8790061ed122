//! Conditions that operators are notified of once.

use std::sync::Arc;

use jiff::SignedDuration;
use uuid::Uuid;

use super::identities::{account, key};
use super::{at, audit_entry, batch};
use crate::Store;
use crate::alerts::MAX_FOUND;
use domain::account::{Account, AccountStatus, Role};
use domain::alert::{Alert, AlertChanges, AlertId, AlertKind, AlertRules};
use domain::id::{AccountId, KeyId, RequestId, UpstreamName};
use domain::key::Key;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::record::RequestRecord;

const DORA: AccountId = AccountId(Uuid::from_u128(0xd0ea));
const ERNA: AccountId = AccountId(Uuid::from_u128(0xe4a));

fn rules() -> AlertRules {
    let now = at(200_000);
    let expiring_until = now + SignedDuration::from_hours(24);
    AlertRules { now, balance_below: Nanos(1_000), expiring_until }
}

async fn changes(store: &dyn Store) -> AlertChanges {
    store.find_alert_changes(rules()).await.unwrap()
}

async fn credit(store: &dyn Store, amount: i64) {
    let kind = EntryKind::Credit("a".to_owned());
    let entry = Entry { account: DORA, amount: Nanos(amount), kind, at: at(10) };
    store.add_entry(&entry, &audit_entry("credit")).await.unwrap();
}

/// Adds an account.
pub(super) async fn run(store: &dyn Store) {
    let dora = account(DORA, "dora", Role::Member);
    store.add_account(&dora, "hash", &[], None, &audit_entry("dora")).await.unwrap();
    let keys = [
        Key { spend_cap: Some(Nanos(100)), ..key("do1", DORA, 20) },
        Key { expires_at: Some(rules().expiring_until), ..key("do2", DORA, 20) },
        Key { expires_at: Some(rules().now), ..key("do3", DORA, 20) },
    ];
    for key in &keys {
        store.add_key(key, &audit_entry("key")).await.unwrap();
    }

    // What held before is recorded without a notification, once.
    store.record_old_alerts(rules()).await.unwrap();
    assert_eq!(changes(store).await, AlertChanges::default());
    credit(store, 999).await;
    store.record_old_alerts(rules()).await.unwrap();

    let (account, balance, bound) = (DORA, Nanos(999), Nanos(1_000));
    let low = Alert::BalanceLow { account, balance, bound };
    let raise = async |alert: &Alert| store.raise_alert(&alert.id(), at(1)).await.unwrap();
    assert_eq!(changes(store).await, AlertChanges { begun: vec![low.clone()], ended: vec![] });
    assert!(raise(&low).await);
    assert!(!raise(&low).await, "once");
    assert_eq!(changes(store).await, AlertChanges::default());
    // Regression test: it ended when the account was closed, and began again when it was resumed.
    for status in [AccountStatus::Closed, AccountStatus::Active] {
        let changed = Account { status, ..dora.clone() };
        store.update_account(&changed, &audit_entry("status")).await.unwrap();
        assert_eq!(changes(store).await, AlertChanges::default(), "{status:?}");
    }
    credit(store, 1_000).await;
    assert_eq!(changes(store).await.ended, [low.id()]);
    assert!(store.clear_alert(&low.id()).await.unwrap());
    assert!(!store.clear_alert(&low.id()).await.unwrap());

    // A share of the cap is spent, by the key or by one that it replaced.
    let charge = async |number: u128, cost: i64| {
        let record = batch(0..1).remove(0);
        let (id, key) = (RequestId(Uuid::from_u128(0xa1e2_7000 + number)), KeyId::new("do1"));
        let record = RequestRecord { id, account: DORA, key, cost: Some(Nanos(cost)), ..record };
        store.commit(Arc::new(vec![record])).await.unwrap();
    };
    charge(1, 79).await;
    assert_eq!(changes(store).await, AlertChanges::default());
    charge(2, 1).await;
    let (key, cap) = (KeyId::new("do1"), Nanos(100));
    let origin = key.clone();
    let near = Alert::SpendCapNear { account: DORA, key, origin, spent: Nanos(80), cap };
    assert_eq!(changes(store).await.begun, std::slice::from_ref(&near));
    assert!(raise(&near).await);
    let raised = Key { spend_cap: Some(Nanos(1_000)), ..keys[0].clone() };
    store.update_keys(&[raised], &audit_entry("key")).await.unwrap();
    assert_eq!(changes(store).await.ended, [near.id()]);
    assert!(store.clear_alert(&near.id()).await.unwrap());

    // The key that expires soon was recorded at first.
    let (key, expires_at) = (KeyId::new("do2"), rules().expiring_until);
    let expiring = Alert::KeyExpiring { account: DORA, key, expires_at };
    store.revoke_key(&KeyId::new("do2"), at(100_000), &audit_entry("key")).await.unwrap();
    assert_eq!(changes(store).await.ended, [expiring.id()]);
    assert!(store.clear_alert(&expiring.id()).await.unwrap());
    let soon = Key { expires_at: Some(rules().expiring_until), ..key_of("do4") };
    store.add_key(&soon, &audit_entry("key")).await.unwrap();
    let (key, account) = (KeyId::new("do4"), DORA);
    let expiring = Alert::KeyExpiring { account, key, expires_at };
    assert_eq!(changes(store).await.begun, [expiring]);
    store.revoke_key(&KeyId::new("do4"), at(100_000), &audit_entry("key")).await.unwrap();

    // Regression test: an account with more of them than are found at once hid those of others.
    let erna = account_of_erna(store).await;
    let owners = (0..=MAX_FOUND).map(|_| DORA).chain([erna]);
    for (number, owner) in owners.enumerate() {
        let key = Key { account: owner, ..key_of(&format!("many{number:03}")) };
        let soon = Key { expires_at: Some(rules().expiring_until), ..key };
        store.add_key(&soon, &audit_entry("key")).await.unwrap();
    }
    let begun = changes(store).await.begun;
    let is_hers =
        |alert: &Alert| matches!(alert, Alert::KeyExpiring { account, .. } if *account == erna);
    assert!(begun.iter().any(is_hers), "{begun:?}");

    // One of an upstream that does not exist any more has ended.
    let down = AlertId::upstream_down(&UpstreamName::new("removed"));
    assert!(store.raise_alert(&down, at(1)).await.unwrap());
    assert!(!store.raise_alert(&down, at(1)).await.unwrap());
    assert_eq!(changes(store).await.ended, std::slice::from_ref(&down));
    assert!(store.clear_alert(&down).await.unwrap());
    // The migration between backends copies it.
    let kept = AlertId { kind: AlertKind::UpstreamDown, subject: "kept".to_owned() };
    assert!(store.raise_alert(&kept, at(1)).await.unwrap());
}

async fn account_of_erna(store: &dyn Store) -> AccountId {
    let erna = account(ERNA, "erna", Role::Member);
    store.add_account(&erna, "hash", &[], None, &audit_entry("erna")).await.unwrap();
    ERNA
}

fn key_of(id: &str) -> Key {
    key(id, DORA, 20)
}
