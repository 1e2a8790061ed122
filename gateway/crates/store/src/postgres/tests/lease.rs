//! Tests of the exclusion of other gateways.

use std::sync::Arc;

use super::{Database, batch};
use crate::postgres::LeaseLost;
use crate::{Cursor, Requests, StoreError};

async fn refusal(database: &Database, node: u128) -> String {
    match database.open(node).await.err() {
        Some(StoreError::Unopened { source, .. }) => source.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_second_gateway_is_refused() {
    let Some(database) = Database::create("second_gateway").await else { return };
    let first = database.open(1).await.unwrap();
    // Whatever the data directory: it may be a copy.
    for node in [1, 2] {
        assert!(refusal(&database, node).await.contains("another gateway is using"));
    }
    first.commit(Arc::new(batch(0..1))).await.unwrap();
    first.close().await;
    let second = database.open(2).await.unwrap();
    assert_eq!(second.commit(Arc::new(batch(0..2))).await.unwrap(), Cursor(2));
    database.remove(second).await;
}

#[tokio::test]
async fn a_killed_gateway_is_replaced_by_its_own_successor_at_once() {
    let Some(database) = Database::create("killed_gateway").await else { return };
    // Dropping the store closes its connections, like a kill.
    drop(database.open(1).await.unwrap());
    let text = refusal(&database, 2).await;
    assert!(text.contains("did not stop cleanly"), "{text}");
    drop(database.open(1).await.unwrap());
    let client = database.connect().await;
    client.batch_execute("UPDATE lease SET heard_at = now() - interval '59 s'").await.unwrap();
    refusal(&database, 2).await;
    client.batch_execute("UPDATE lease SET heard_at = now() - interval '61 s'").await.unwrap();
    database.remove(database.open(2).await.unwrap()).await;
}

#[tokio::test]
async fn a_superseded_gateway_cannot_write_and_stops() {
    let Some(database) = Database::create("superseded").await else { return };
    let first = database.open(1).await.unwrap();
    first.commit(Arc::new(batch(0..1))).await.unwrap();
    let client = database.connect().await;
    // Its connection is lost, and it is not heard of.
    let lose = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    client.batch_execute(lose).await.unwrap();
    client.batch_execute("UPDATE lease SET heard_at = now() - interval '61 s'").await.unwrap();
    let second = database.open(2).await.unwrap();
    match first.commit(Arc::new(batch(1..2))).await {
        Err(StoreError::Unavailable(source)) => {
            assert!(source.to_string().contains("taken over"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(second.newest().await.unwrap(), Cursor(1));
    assert_eq!(second.commit(Arc::new(batch(1..2))).await.unwrap(), Cursor(2));
    assert_eq!(first.keep_lease().await, LeaseLost::Superseded);
    drop(first);
    database.remove(second).await;
}

#[tokio::test]
async fn a_lost_connection_is_replaced_and_the_lease_stays() {
    let Some(database) = Database::create("lost_connection").await else { return };
    let store = database.open(1).await.unwrap();
    let client = database.connect().await;
    let lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.batch_execute(lose).await.unwrap();
    // The first renewal may meet the closed connection.
    if store.lease.try_renew().await.is_none() {
        assert_eq!(store.lease.try_renew().await, Some(true));
    }
    assert!(refusal(&database, 2).await.contains("another gateway is using"));
    database.remove(store).await;
}
