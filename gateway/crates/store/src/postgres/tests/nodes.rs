//! Tests of nodes and their fence.

use std::sync::Arc;
use std::time::Duration;

use super::{Database, batch, node};
use crate::conformance::audit_entry;
use crate::fleet::{Fenced, Heartbeat, HeartbeatOutcome, Membership, Nodes, SealKeys};
use crate::postgres::PostgresStore;
use crate::{Cursor, Requests, StoreError};
use domain::change::ChangeSeq;
use domain::node::{NodeFigures, NodeName, NodeRemoval, NodeState};

/// Longer than a heartbeat takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

async fn refusal(database: &Database, number: u128) -> String {
    match database.open(number).await.err() {
        Some(StoreError::Unopened { source, .. }) => source.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn beat(store: &PostgresStore) -> HeartbeatOutcome {
    store.heartbeat(NodeFigures::default(), LIMIT).await.unwrap()
}

/// Returns the answer to a heartbeat in a database without changes, on a server that was never promoted.
fn without_changes() -> Heartbeat {
    let none = ChangeSeq { timeline: 1, number: 0 };
    Heartbeat { newest_change: none, applied_change: none, ..Heartbeat::default() }
}

async fn expect_fenced(store: &PostgresStore, reason: Fenced) {
    match store.commit(Arc::new(batch(1..2))).await {
        Err(StoreError::Unavailable(source)) => {
            assert!(source.to_string().contains("taken over"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(beat(store).await, HeartbeatOutcome::Fenced(reason));
}

#[tokio::test]
async fn several_nodes_write_to_one_log() {
    let Some(database) = Database::create("several_nodes").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    one.commit(Arc::new(batch(0..1))).await.unwrap();
    // The second delivery of a record changes nothing, whichever node it comes from.
    assert_eq!(two.commit(Arc::new(batch(0..2))).await.unwrap(), Cursor(2));
    let expected = Heartbeat { newest: Cursor(2), ..without_changes() };
    assert_eq!(beat(&one).await, HeartbeatOutcome::Recorded(expected));
    two.leave().await.unwrap();
    let nodes = one.nodes().await.unwrap();
    let states: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.state())).collect();
    assert_eq!(states, [("node-1", NodeState::Serving), ("node-2", NodeState::Stopped)]);
    database.remove(one).await;
}

#[tokio::test]
async fn the_key_of_secrets_is_replaced_by_the_only_node() {
    let Some(database) = Database::create("seal_keys").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    assert_eq!(one.claim_seal_fingerprint("former").await.unwrap(), "former");
    match one.replace_seal_fingerprint("former", "new").await {
        Err(StoreError::Conflict(text)) => assert!(text.contains("`node-2`"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(two.claim_seal_fingerprint("former").await.unwrap(), "former", "nothing changed");
    two.leave().await.unwrap();
    let name = NodeName::new("node-2");
    one.remove_node(&name, NodeRemoval::Stopped, &audit_entry("node-2")).await.unwrap();
    one.replace_seal_fingerprint("former", "new").await.unwrap();
    assert_eq!(one.seal_fingerprint().await.unwrap().as_deref(), Some("new"));
    let unknown = one.replace_seal_fingerprint("former", "third").await;
    assert!(matches!(unknown, Err(StoreError::Conflict(_))), "{unknown:?}");
    database.remove(one).await;
}

#[tokio::test]
async fn a_name_belongs_to_one_node() {
    let Some(database) = Database::create("node_names").await else { return };
    let one = database.open(1).await.unwrap();
    let address = super::PostgresAddress::parse(&database.url).unwrap();
    let same_name = crate::fleet::JoiningNode { name: NodeName::new("node-1"), ..node(2) };
    let refused = PostgresStore::open(&address, &same_name).await.err();
    let Some(StoreError::Unopened { source, .. }) = refused else { panic!("{refused:?}") };
    let text = source.to_string();
    assert!(text.contains("another gateway is node `node-1`") && text.contains("h:1"), "{text}");
    database.remove(one).await;
}

#[tokio::test]
async fn a_later_process_of_a_node_fences_the_earlier_one() {
    let Some(database) = Database::create("superseded").await else { return };
    let first = database.open(1).await.unwrap();
    first.commit(Arc::new(batch(0..1))).await.unwrap();
    let second = database.open(1).await.unwrap();
    expect_fenced(&first, Fenced::Superseded).await;
    // Leaving does not concern the later process.
    first.leave().await.unwrap();
    assert_eq!(second.nodes().await.unwrap()[0].state(), NodeState::Serving);
    assert_eq!(second.commit(Arc::new(batch(1..2))).await.unwrap(), Cursor(2));
    database.remove(second).await;
}

#[tokio::test]
async fn a_removed_node_is_fenced_and_cannot_return() {
    let Some(database) = Database::create("removed_node").await else { return };
    let (one, two) = (database.open(1).await.unwrap(), database.open(2).await.unwrap());
    let name = NodeName::new("node-2");
    let audit = audit_entry("node-2");
    let remove = |removal| one.remove_node(&name, removal, &audit);
    match remove(NodeRemoval::Lost).await {
        Err(StoreError::Conflict(text)) => assert!(text.contains("was heard of"), "{text}"),
        other => panic!("{other:?}"),
    }
    let client = database.connect().await;
    let silent = "UPDATE nodes SET heard_at = now() - interval '61 s' WHERE name = 'node-2'";
    client.batch_execute(silent).await.unwrap();
    match remove(NodeRemoval::Stopped).await {
        Err(StoreError::Conflict(text)) => assert!(text.contains("--lost"), "{text}"),
        other => panic!("{other:?}"),
    }
    remove(NodeRemoval::Lost).await.unwrap();
    assert!(matches!(remove(NodeRemoval::Lost).await, Err(StoreError::NotFound)));
    expect_fenced(&two, Fenced::Removed).await;
    assert!(refusal(&database, 2).await.contains("new data directory"));
    // Its name is free for another node.
    let address = super::PostgresAddress::parse(&database.url).unwrap();
    let successor = crate::fleet::JoiningNode { name: name.clone(), ..node(3) };
    PostgresStore::open(&address, &successor).await.unwrap().leave().await.unwrap();
    remove(NodeRemoval::Stopped).await.unwrap();
    database.remove(one).await;
}

#[tokio::test]
async fn a_node_learns_that_it_drains_and_a_start_resets_that() {
    let Some(database) = Database::create("draining_node").await else { return };
    let store = database.open(1).await.unwrap();
    let (name, audit) = (NodeName::new("node-1"), audit_entry("node-1"));
    store.set_draining(&name, true, &audit).await.unwrap();
    let expected = Heartbeat { is_draining: true, ..without_changes() };
    assert_eq!(beat(&store).await, HeartbeatOutcome::Recorded(expected));
    let again = database.open(1).await.unwrap();
    assert_eq!(beat(&again).await, HeartbeatOutcome::Recorded(without_changes()));
    let missing = again.set_draining(&NodeName::new("node-2"), true, &audit).await;
    assert!(matches!(missing, Err(StoreError::NotFound)), "{missing:?}");
    database.remove(again).await;
}

#[tokio::test]
async fn a_heartbeat_replaces_a_lost_connection() {
    let Some(database) = Database::create("lost_connection").await else { return };
    let store = database.open(1).await.unwrap();
    beat(&store).await;
    let client = database.connect().await;
    let lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.batch_execute(lose).await.unwrap();
    // The first heartbeat may meet the closed connection.
    if store.heartbeat(NodeFigures::default(), LIMIT).await.is_err() {
        beat(&store).await;
    }
    database.remove(store).await;
}
