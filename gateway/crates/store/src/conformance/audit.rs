//! The audit log: entries of changes, entries without a change, and idempotent calls.

use super::{ALICE, BOB, at, audit_entry, expect_conflict};
use crate::{AuditFilter, CatalogueUpdate, Cursor, Store};
use domain::account::Invite;
use domain::audit::{AuditAction, AuditEntry};
use domain::id::InviteId;
use domain::idempotency::{AdminCall, CompletedCall};
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::source::CallAddress;

pub(super) async fn run(store: &dyn Store) {
    successful_changes_are_logged_once(store).await;
    entries_are_filtered_and_paginated(store).await;
    calls_are_stored_with_their_change(store).await;
}

async fn successful_changes_are_logged_once(store: &dyn Store) {
    let all = store.audit_before(&AuditFilter::default(), None, usize::MAX).await.unwrap();
    assert!(all.windows(2).all(|two| two[0].0 > two[1].0), "newest first");
    let count = |object: &str| all.iter().filter(|(_, entry)| entry.object == object).count();
    let counts = ["a", "i", "o", "s", "r", "c"].map(count);
    assert_eq!(counts, [2, 5, 8, 5, 1, 1], "refused changes are not logged");
}

async fn entries_are_filtered_and_paginated(store: &dyn Store) {
    let entry = |minute, actor, account| AuditEntry {
        at: at(minute),
        actor: Some(actor),
        action: AuditAction::KeyCreate,
        account,
        details: "with \"details\"".to_owned(),
        address: Some(if actor == BOB {
            CallAddress::UnixSocket
        } else {
            CallAddress::Ip([192, 0, 2, 7].into())
        }),
        ..audit_entry("k1")
    };
    let mut entries =
        [entry(500, ALICE, Some(ALICE)), entry(510, BOB, Some(ALICE)), entry(520, BOB, None)];
    // A gateway of a later version has actions that this one does not know.
    entries[2].action = AuditAction::from_name("later.action");
    assert_eq!(entries[2].action, AuditAction::Unknown("later.action".into()));
    for (number, entry) in (0_u8..).zip(&entries[..2]) {
        store.add_invite(&invite(number), 99, entry).await.unwrap();
    }
    store.add_audit(&entries[2]).await.unwrap();
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

async fn calls_are_stored_with_their_change(store: &dyn Store) {
    let call = |key: &str| AdminCall { method: "Credit", key: key.to_owned(), digest: [7; 32] };
    let entry = |minute, key: &str| AuditEntry {
        at: at(minute),
        actor: Some(ALICE),
        call: Some(call(key)),
        ..audit_entry("bob")
    };
    let (old, new) = (entry(600, "old"), entry(700, "new"));
    store.add_invite(&invite(10), 99, &old).await.unwrap();
    let kind = EntryKind::Credit("once".into());
    let money = Entry { account: ALICE, amount: Nanos(5), kind, at: at(700) };
    store.add_entry(&money, &new).await.unwrap();
    // A repeated call does not change anything, even after other calls.
    let balance = store.balance(ALICE).await.unwrap();
    expect_conflict(store.add_entry(&money, &new).await, "already made");
    assert_eq!(store.balance(ALICE).await.unwrap(), balance);
    let nothing = CatalogueUpdate::default();
    let again = [audit_entry("plan"), new.clone()];
    expect_conflict(store.update_catalogue(&nothing, &again).await, "already made");
    let twice = [entry(700, "twice"), entry(700, "twice")];
    expect_conflict(store.update_catalogue(&nothing, &twice).await, "already made");
    assert_eq!(store.find_call(ALICE, &call("twice")).await.unwrap(), None);

    let done = CompletedCall { digest: [7; 32], object: "bob".to_owned() };
    assert_eq!(store.find_call(ALICE, &call("old")).await.unwrap(), Some(done.clone()));
    assert_eq!(store.find_call(BOB, &call("old")).await.unwrap(), None, "another account's");
    let other = AdminCall { method: "Suspend", ..call("old") };
    assert_eq!(store.find_call(ALICE, &other).await.unwrap(), None, "another method's");
    assert_eq!(store.delete_old_calls(at(600), 9).await.unwrap(), 0);
    assert_eq!(store.delete_old_calls(at(700), 9).await.unwrap(), 1);
    assert_eq!(store.find_call(ALICE, &call("old")).await.unwrap(), None);
    assert_eq!(store.find_call(ALICE, &call("new")).await.unwrap(), Some(done));
}

fn invite(number: u8) -> Invite {
    Invite {
        id: InviteId::new(format!("a{number}")),
        digest: [100 + number; 32],
        created_by: None,
        created_at: at(0),
        expires_at: at(1),
        plan: None,
        credit: None,
        used: None,
    }
}
