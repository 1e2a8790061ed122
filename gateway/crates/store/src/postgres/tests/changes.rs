//! Tests of changes that several nodes make.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::Database;
use crate::conformance::audit_entry;
use crate::fleet::{ChangeSeq, Changes, Notifications, UnappliedChanges};
use crate::postgres::PostgresStore;
use crate::{Catalogue, Identities, StoreError};
use domain::id::PlanName;
use domain::limit::Limits;
use domain::money::Nanos;
use domain::plan::Plan;

/// Longer than a notification takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

fn plan(name: &str) -> Plan {
    Plan {
        name: PlanName::new(name),
        trial_credit: Nanos::ZERO,
        limits: Limits::default(),
        models: Vec::new(),
    }
}

async fn put(store: &PostgresStore, name: &str) -> Result<(), StoreError> {
    store.put_plan(&plan(name), &audit_entry(name)).await
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
    assert_eq!((changes.newest, plans(&changes)), (ChangeSeq(2), vec!["a", "b"]));
    two.mark_applied(changes.newest);
    put(&two, "c").await.unwrap();
    let none = two.unapplied_changes().await.unwrap();
    assert!(none.catalogue.is_none(), "its change counts as applied");
    assert!(matches!(put(&one, "d").await, Err(StoreError::Stale)));
    // A failed change leaves no trace.
    assert_eq!(one.load().await.unwrap().plans.len(), 3);
    assert_eq!(one.unapplied_changes().await.unwrap().newest, ChangeSeq(3));
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
