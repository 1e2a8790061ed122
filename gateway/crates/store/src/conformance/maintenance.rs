//! What retention stores about the time, keys that it deletes, and the size of the database.

use std::time::Duration;

use super::identities::key;
use super::{ALICE, at, audit_entry};
use crate::{RetentionTime, Store, UnconfirmedTime};
use domain::id::KeyId;

pub(super) async fn run(store: &dyn Store) {
    assert!(store.database_bytes().await.unwrap() > 10_000);
    assert_eq!(store.retention_time().await.unwrap(), None);
    let unconfirmed =
        UnconfirmedTime { first: at(5_000), last: at(5_001), uptime: Duration::from_secs(61) };
    for (minute, unconfirmed) in [(5, None), (9, Some(unconfirmed)), (7, None)] {
        let time = RetentionTime { trusted: at(minute), unconfirmed };
        store.set_retention_time(time).await.unwrap();
        assert_eq!(store.retention_time().await.unwrap(), Some(time));
    }
    revoked_keys_without_requests_are_deleted(store).await;
}

/// Needs the account of Alice, and a key with requests.
async fn revoked_keys_without_requests_are_deleted(store: &dyn Store) {
    let all = store.keys(None).await.unwrap();
    let (used, _) = all.into_iter().find(|(_, last_used_at)| last_used_at.is_some()).unwrap();
    for id in ["unused-1", "unused-2", "unused-3"] {
        store.add_key(&key(id, ALICE, 1), &audit_entry("u")).await.unwrap();
    }
    for (id, minute) in [("unused-1", 10), ("unused-2", 20), (used.id.as_str(), 10)] {
        store.revoke_key(&KeyId::new(id), at(minute), &audit_entry("u")).await.unwrap();
    }
    let delete = async |minute| store.delete_unused_keys(at(minute), 9).await.unwrap();
    assert_eq!((delete(10).await, delete(20).await, delete(20).await), (0, 1, 0));
    assert_eq!((delete(9_999).await, delete(9_999).await), (1, 0));
    for (id, is_left) in [("unused-1", false), ("unused-3", true), (used.id.as_str(), true)] {
        let found = store.find_key(&KeyId::new(id)).await.unwrap();
        assert_eq!(found.is_some(), is_left, "{id}");
    }
}
