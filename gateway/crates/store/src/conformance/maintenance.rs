//! The time that retention trusts, and the size of the database.

use super::at;
use crate::Store;

pub(super) async fn run(store: &dyn Store) {
    assert!(store.database_bytes().await.unwrap() > 10_000);
    assert_eq!(store.trusted_time().await.unwrap(), None);
    for minute in [5, 9, 7] {
        store.set_trusted_time(at(minute)).await.unwrap();
        assert_eq!(store.trusted_time().await.unwrap(), Some(at(minute)));
    }
}
