//! Tests of batches that are sent again.

use std::sync::Arc;

use super::{Database, batch};
use crate::{Cursor, LedgerEntries, Requests};

/// The server holds back less of a COPY than this batch, so that it fails before all of it is sent.
#[tokio::test]
async fn a_large_batch_may_be_sent_again() {
    let Some(database) = Database::create("large_batch").await else { return };
    let store = database.open(1).await.unwrap();
    let sent = Arc::new(batch(0..20_000));
    for _ in 0..2 {
        assert_eq!(store.commit(sent.clone()).await.unwrap(), Cursor(20_000));
    }
    assert_eq!(store.commit(Arc::new(batch(19_000..20_001))).await.unwrap(), Cursor(20_001));
    assert!(store.verify_ledger().await.unwrap().is_consistent());
    database.remove(store).await;
}
