//! Tests of changes that several nodes make.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use uuid::Uuid;

use super::Database;
use crate::conformance::audit_entry;
use crate::conformance::identities::{account, key};
use crate::fleet::{Changes, HeartbeatOutcome, Membership, Notifications, UnappliedChanges};
use crate::postgres::PostgresStore;
use crate::{Catalogue, Identities, StoreError};
use domain::account::Role;
use domain::change::ChangeSeq;
use domain::id::{AccountId, PlanName};
use domain::limit::Limits;
use domain::money::Nanos;
use domain::node::NodeFigures;
use domain::plan::Plan;

/// Longer than a notification takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

fn plan(name: &str) -> Plan {
    Plan {
        name: PlanName::new(name),
        trial_credit: Nanos::ZERO,
        max_keys: 100,
        limits: Limits::default(),
        models: Vec::new(),
    }
}

async fn put(store: &PostgresStore, name: &str) -> Result<(), StoreError> {
    store.put_plan(&plan(name), &audit_entry(name)).await
}

/// Returns the place of a change in the timeline of a server that was never promoted.
fn change(number: i64) -> ChangeSeq {
    ChangeSeq { timeline: 1, number }
}

fn plans(changes: &UnappliedChanges) -> Vec<&str> {
    let stored = changes.catalogue.as_ref().map(|stored| &stored.plans);
    stored.into_iter().flatten().map(|plan| plan.name.as_str()).collect()
}

#[tokio::test]
async fn a_change_must_be_based_on_all_earlier_ones() {
    let Some(database) = Database::create("stale").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    put(&one, "a").await.unwrap();
    put(&one, "b").await.unwrap();
    assert!(matches!(put(&two, "c").await, Err(StoreError::Stale)));
    let changes = two.unapplied_changes().await.unwrap();
    assert_eq!((changes.newest, plans(&changes)), (change(2), vec!["a", "b"]));
    two.mark_applied(changes.newest);
    put(&two, "c").await.unwrap();
    let none = two.unapplied_changes().await.unwrap();
    assert!(none.catalogue.is_none(), "its change counts as applied");
    assert!(matches!(put(&one, "d").await, Err(StoreError::Stale)));
    // A failed change leaves no trace.
    assert_eq!(one.load().await.unwrap().plans.len(), 3);
    assert_eq!(one.unapplied_changes().await.unwrap().newest, change(3));
    two.close();
    database.remove(one).await;
}

#[tokio::test]
async fn a_gateway_that_lacks_deleted_changes_reads_everything() {
    let Some(database) = Database::create("old_changes").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    let alice = account(AccountId(Uuid::from_u128(7)), "alice", Role::Member);
    one.add_account(&alice, "", &[], None, &audit_entry("alice")).await.unwrap();
    let key = key("a1", alice.id, 0);
    one.add_key(&key, &audit_entry("a1")).await.unwrap();
    one.revoke_key(&key.id, key.created_at, &audit_entry("a1")).await.unwrap();
    put(&one, "a").await.unwrap();
    two.mark_applied(change(1));
    assert_eq!(one.delete_old_changes(3, 100).await.unwrap(), 1);
    let changes = two.unapplied_changes().await.unwrap();
    assert_eq!(changes.accounts, [], "all changes that it lacks are left");
    assert_eq!((changes.keys.len(), plans(&changes)), (1, vec!["a"]));

    put(&one, "b").await.unwrap();
    assert_eq!(one.delete_old_changes(1, 2).await.unwrap(), 2);
    assert_eq!(one.delete_old_changes(1, 2).await.unwrap(), 1);
    assert_eq!(one.delete_old_changes(1, 2).await.unwrap(), 0);
    let changes = two.unapplied_changes().await.unwrap();
    assert_eq!(changes.newest, change(5));
    assert_eq!((&changes.accounts, plans(&changes)), (&vec![alice], vec!["a", "b"]));
    assert_eq!(changes.keys[0].revoked_at, Some(key.created_at), "a revoked key is included");

    two.mark_applied(changes.newest);
    put(&one, "c").await.unwrap();
    let changes = two.unapplied_changes().await.unwrap();
    assert_eq!((changes.is_complete, changes.accounts.len(), changes.keys.len()), (false, 0, 0));
    assert_eq!(plans(&changes), ["a", "b", "c"]);
    two.close();
    database.remove(one).await;
}

#[tokio::test]
async fn changes_are_notified_and_a_lost_connection_is_reported() {
    let Some(database) = Database::create("notified").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), Arc::new(database.open(2).await.unwrap()));
    let noticed = Arc::new(Notify::new());
    let (watching, notify) = (two.clone(), noticed.clone());
    #[expect(clippy::disallowed_methods, reason = "the test waits for its end")]
    let watch = tokio::spawn(async move { watching.watch(&move |_| notify.notify_one()).await });
    timeout(LIMIT, noticed.notified()).await.expect("it is connected");
    put(&one, "a").await.unwrap();
    timeout(LIMIT, noticed.notified()).await.expect("a change is notified");
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    database.connect().await.batch_execute(terminate).await.unwrap();
    let lost = timeout(LIMIT, watch).await.expect("the loss is noticed").unwrap();
    assert!(matches!(lost, StoreError::Unavailable(_)), "{lost:?}");
    two.close();
    database.remove(one).await;
}

/// Regression test: a gateway did not see a change whose number it had applied before a failover.
#[tokio::test]
async fn after_a_failover_everything_is_read() {
    let Some(database) = Database::create("failover_changes").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    put(&one, "a").await.unwrap();
    // As if two had applied one change of the former primary, which the failover lost.
    two.mark_applied(ChangeSeq { timeline: 7, number: 1 });
    assert!(matches!(put(&two, "b").await, Err(StoreError::Stale)));
    let changes = two.unapplied_changes().await.unwrap();
    assert_eq!((changes.newest, plans(&changes)), (change(1), vec!["a"]));
    assert!(changes.is_complete, "what it does not contain is lost");
    two.mark_applied(changes.newest);
    put(&two, "b").await.unwrap();
    assert!(two.unapplied_changes().await.unwrap().catalogue.is_none());
    two.close();
    database.remove(one).await;
}

/// Regression test: a gateway did not start on a managed server without `pg_walfile_name`.
#[tokio::test]
async fn a_server_need_not_tell_its_timeline() {
    let Some(database) = Database::create("no_timeline").await else { return };
    let client = database.connect().await;
    let refuse = "CREATE FUNCTION pg_walfile_name(pg_lsn) RETURNS text LANGUAGE plpgsql \
        AS $$ BEGIN RAISE feature_not_supported; END $$";
    client.batch_execute(refuse).await.unwrap();
    let first = format!("ALTER DATABASE {} SET search_path = public, pg_catalog", database.name);
    client.batch_execute(&first).await.unwrap();
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    assert!(!one.notices_failovers());
    put(&one, "a").await.unwrap();
    let changes = two.unapplied_changes().await.unwrap();
    let newest = ChangeSeq { timeline: 0, number: 1 };
    assert_eq!((changes.newest, plans(&changes)), (newest, vec!["a"]));
    assert_eq!(one.load().await.unwrap().changes, newest);
    let beat = one.heartbeat(NodeFigures::default(), LIMIT).await.unwrap();
    assert!(matches!(beat, HeartbeatOutcome::Recorded(beat) if beat.newest_change == newest));
    two.close();
    database.remove(one).await;
}
