//! The audit log: what it was told with changes, and on its own.

use super::{ALICE, BOB, at, noted};
use crate::domain::audit::{AuditAction, AuditEntry};
use crate::store::{AuditFilter, Cursor, Store};

pub(super) async fn play(store: &dyn Store) {
    changes_left_their_entries(store).await;
    entries_are_chosen_and_paged(store).await;
}

/// What succeeded is there once, in order; what was refused is not.
async fn changes_left_their_entries(store: &dyn Store) {
    let all = store.audit_before(&AuditFilter::default(), None, usize::MAX).await.unwrap();
    assert!(all.windows(2).all(|two| two[0].0 > two[1].0), "newest first");
    let count = |object: &str| all.iter().filter(|(_, entry)| entry.object == object).count();
    let counts = ["a", "i", "s", "r", "c"].map(count);
    assert_eq!(counts, [2, 3, 3, 1, 1], "what was refused left nothing");
}

async fn entries_are_chosen_and_paged(store: &dyn Store) {
    let entry = |minute, actor, account| AuditEntry {
        at: at(minute),
        actor: Some(actor),
        action: AuditAction::KeyCreate,
        account,
        details: "with \"details\"".to_owned(),
        ..noted("k1")
    };
    let entries =
        [entry(500, ALICE, Some(ALICE)), entry(510, BOB, Some(ALICE)), entry(520, BOB, None)];
    for entry in &entries {
        store.add_audit(entry).await.unwrap();
    }
    let [of_alice, by_bob, of_none] = entries;
    let found = async |filter: AuditFilter| -> Vec<AuditEntry> {
        let found = store.audit_before(&filter, None, 9).await.unwrap();
        found.into_iter().map(|(_, entry)| entry).filter(|entry| entry.at >= at(500)).collect()
    };
    let of = |account| AuditFilter { account: Some(account), ..AuditFilter::default() };
    assert_eq!(found(of(ALICE)).await, [by_bob.clone(), of_alice.clone()]);
    assert_eq!(found(of(BOB)).await, [of_none.clone(), by_bob.clone()]);
    let between = AuditFilter { account: None, since: Some(at(500)), until: Some(at(520)) };
    assert_eq!(found(between.clone()).await, [by_bob.clone(), of_alice.clone()]);

    let mut paged = Vec::new();
    let mut before: Option<Cursor> = None;
    loop {
        let page = store.audit_before(&between, before, 1).await.unwrap();
        let Some((cursor, entry)) = page.into_iter().next() else { break };
        before = Some(cursor);
        paged.push(entry);
    }
    assert_eq!(paged, [by_bob, of_alice]);
}
