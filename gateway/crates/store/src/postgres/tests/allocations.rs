//! Tests of allocations: pools are never taken twice, and records reduce what was allocated.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Database, batch};
use crate::conformance::audit_entry;
use crate::conformance::identities::{account, key};
use crate::{Allocations, Identities, Requests};
use domain::account::Role;
use domain::allocation::{Allocation, AllocationRequest, LimitSubject, Pool};
use domain::id::KeyId;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;

fn request(pool: &Pool, limit: Option<i64>, needed: i64) -> AllocationRequest {
    AllocationRequest { pool: pool.clone(), limit, needed }
}

fn found(granted: i64, available: i64, elsewhere: i64) -> Allocation {
    Allocation { granted, available, elsewhere }
}

#[tokio::test]
async fn a_balance_is_divided_between_gateways_and_reduced_by_their_records() {
    let Some(database) = Database::create("allocations").await else { return };
    let store = database.open(1).await.unwrap();
    let records = batch(0..10);
    let payer = records[0].account;
    let credit = |amount| Entry {
        account: payer,
        amount: Nanos(amount),
        kind: EntryKind::Credit("test".into()),
        at: Timestamp::UNIX_EPOCH,
    };
    store.add_entry(&credit(1_000), &audit_entry("a")).await.unwrap();
    let pool = Pool::Balance(payer);
    let needs = |needed| request(&pool, None, needed);
    assert_eq!(store.allocate(1, &[needs(10)]).await.unwrap(), [found(250, 750, 0)]);
    let client = database.connect().await;
    let other = format!(
        "INSERT INTO allocations VALUES ('balance', '{payer}', 0, gen_random_uuid(), 9, 700, NULL)"
    );
    client.batch_execute(&other).await.unwrap();
    assert_eq!(store.allocate(2, &[needs(60)]).await.unwrap(), [found(50, 0, 700)]);
    store.give_back(3, &[(pool.clone(), 100)]).await.unwrap();
    assert_eq!(store.allocated(std::slice::from_ref(&pool)).await.unwrap(), [200]);

    let spent: i64 = records.iter().map(|record| record.cost.unwrap_or_default().0).sum();
    assert!(spent > 0 && records.iter().all(|record| record.account == payer));
    for _ in 0..2 {
        store.commit(Arc::new(records.clone())).await.unwrap();
        assert_eq!(
            store.allocated(std::slice::from_ref(&pool)).await.unwrap(),
            [200 - spent],
            "counted once"
        );
    }
    assert_eq!(store.balance(payer).await.unwrap(), Nanos(1_000 - spent));
    assert_eq!(store.allocate(4, &[needs(500)]).await.unwrap(), [found(100, 0, 700)]);

    // A debit may take what gateways have; nothing is available until they have given it back.
    store.add_entry(&credit(-900), &audit_entry("a")).await.unwrap();
    assert_eq!(store.allocate(5, &[needs(1)]).await.unwrap(), [found(0, -900, 700)]);
    store.give_back_all().await.unwrap();
    assert_eq!(store.allocated(&[pool]).await.unwrap(), [0]);
    database.remove(store).await;
}

/// Regression test: an allocation that committed after everything was given back remained allocated to
/// a gateway that had stopped.
#[tokio::test]
async fn giving_everything_back_waits_for_abandoned_allocations() {
    let Some(database) = Database::create("abandoned").await else { return };
    let store = database.open(1).await.unwrap();
    let payer = batch(0..1)[0].account;
    let (abandoned, observer) = (database.connect().await, database.connect().await);
    let (node, epoch) = store.node();
    let allocate = format!(
        "BEGIN; SELECT FROM nodes WHERE id = '{node}' AND epoch = {epoch} FOR KEY SHARE; \
         INSERT INTO allocations VALUES ('balance', '{payer}', 0, '{node}', {epoch}, 5, NULL)"
    );
    abandoned.batch_execute(&allocate).await.unwrap();
    let commit = async {
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity \
            WHERE datname = current_database() AND wait_event_type = 'Lock')";
        while !observer.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {}
        abandoned.batch_execute("COMMIT").await.unwrap();
    };
    let mut giving_back = store.give_back_all();
    tokio::select! {
        biased;
        done = &mut giving_back => panic!("{done:?}"),
        () = commit => {}
    }
    giving_back.await.unwrap();
    assert_eq!(store.allocated(&[Pool::Balance(payer)]).await.unwrap(), [0]);
    database.remove(store).await;
}

/// Regression test: an operation whose answer was lost left its amount unusable until a restart.
#[tokio::test]
async fn a_repeated_operation_is_executed_once_and_answered_again() {
    let Some(database) = Database::create("operations").await else { return };
    let store = database.open(1).await.unwrap();
    let pool = Pool::Concurrency(LimitSubject::Key(KeyId::new("k")));
    let asked = [request(&pool, Some(100), 40)];
    for _ in 0..3 {
        assert_eq!(store.allocate(1, &asked).await.unwrap(), [found(40, 60, 0)]);
        assert_eq!(store.allocated(std::slice::from_ref(&pool)).await.unwrap(), [40]);
    }
    for _ in 0..3 {
        store.give_back(2, &[(pool.clone(), 10)]).await.unwrap();
        assert_eq!(store.allocated(std::slice::from_ref(&pool)).await.unwrap(), [30]);
    }
    assert!(store.allocate(1, &asked).await.is_err(), "a late attempt changes nothing");
    for (operation, used) in [(3, 25), (4, 0), (5, 130), (6, 30)] {
        for _ in 0..2 {
            store.set_allocated(operation, &[(pool.clone(), used)]).await.unwrap();
            assert_eq!(store.allocated(std::slice::from_ref(&pool)).await.unwrap(), [used]);
        }
    }
    // A later process begins with the first number.
    store.leave().await.unwrap();
    store.close();
    let store = database.open(1).await.unwrap();
    assert_eq!(store.allocate(1, &asked).await.unwrap(), [found(40, 30, 30)]);
    database.remove(store).await;
}

#[tokio::test]
async fn quotas_and_caps_are_what_was_not_used_and_rates_expire_after_a_minute() {
    let Some(database) = Database::create("quotas").await else { return };
    let store = database.open(1).await.unwrap();
    let mut records = batch(0..3);
    let payer = records[0].account;
    store
        .add_account(&account(payer, "ann", Role::Member), "hash", &[], None, &audit_entry("a"))
        .await
        .unwrap();
    let mut owned = key("k1", payer, 1);
    owned.origin = KeyId::new("first");
    store.add_key(&owned, &audit_entry("a")).await.unwrap();
    for record in &mut records {
        record.key = owned.id.clone();
        record.started_at = "2026-11-30T23:59:00Z".parse().unwrap();
    }
    store.commit(Arc::new(records.clone())).await.unwrap();
    let tokens: u64 =
        records.iter().filter_map(|it| it.usage).map(|it| it.input.0 + it.output.0).sum();
    let tokens = i64::try_from(tokens).unwrap();
    let spent: i64 = records.iter().filter_map(|it| it.cost).map(|cost| cost.0).sum();
    assert!(tokens > 0 && spent > 0);
    let model = records[0].model.clone().unwrap();
    assert!(records.iter().all(|record| record.model.as_ref() == Some(&model)));

    let subjects = [
        LimitSubject::Account(payer),
        LimitSubject::Model(model),
        LimitSubject::Key(owned.origin.clone()),
    ];
    let of_month = |month: &str| {
        let month = month.parse().unwrap();
        let pool = |subject: &LimitSubject| Pool::MonthlyTokens { subject: subject.clone(), month };
        let pools: Vec<_> = subjects.iter().map(pool).collect();
        pools.iter().map(|pool| request(pool, Some(tokens + 40), 1)).collect::<Vec<_>>()
    };
    let november = store.allocate(6, &of_month("2026-11-01T00:00:00Z")).await.unwrap();
    assert_eq!(november, vec![found(10, 30, 0); 3]);
    let december = store.allocate(7, &of_month("2026-12-01T00:00:00Z")).await.unwrap();
    assert!(december.iter().all(|it| it.granted == (tokens + 40) / 4), "{december:?}");
    let cap = request(&Pool::SpendCap(owned.origin), Some(spent + 8), 1);
    assert_eq!(store.allocate(8, std::slice::from_ref(&cap)).await.unwrap(), [found(2, 6, 0)]);
    // Another gateway lowers the cap, and this one does not know it yet.
    let lower = format!("UPDATE keys SET spend_cap = {} WHERE revoked_at IS NULL", spent + 5);
    database.connect().await.batch_execute(&lower).await.unwrap();
    assert_eq!(store.allocate(9, &[cap]).await.unwrap(), [found(1, 2, 0)]);

    let rates = [Pool::Requests(subjects[1].clone()), Pool::Concurrency(subjects[1].clone())];
    let asked: Vec<_> = rates.iter().map(|pool| request(pool, Some(100), 90)).collect();
    assert_eq!(store.allocate(10, &asked).await.unwrap(), vec![found(90, 10, 0); 2]);
    store.give_back(11, &[(rates[0].clone(), 50)]).await.unwrap();
    store.give_back_all().await.unwrap();
    // What was used in the last minute still counts.
    let again = store.allocate(12, &asked).await.unwrap();
    assert_eq!(again, [found(60, 0, 0), found(90, 10, 0)]);
    database.remove(store).await;
}
