//! The time that retention trusts.

use super::at;
use crate::Store;

pub(super) async fn run(store: &dyn Store) {
    assert_eq!(store.trusted_time().await.unwrap(), None);
    for minute in [5, 9, 7] {
        store.set_trusted_time(at(minute)).await.unwrap();
        assert_eq!(store.trusted_time().await.unwrap(), Some(at(minute)));
    }
}
