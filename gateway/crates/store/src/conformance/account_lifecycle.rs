//! Renamed, closed and deleted accounts.

use uuid::Uuid;

use super::identities::{account, key};
use super::password_resets::reset;
use super::{at, audit_entry, expect_conflict, expect_not_found};
use crate::{AuditFilter, Store};
use domain::account::{Account, AccountStatus, Role};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;

const CAROL: AccountId = AccountId(Uuid::from_u128(0xca501));

fn about_carol(object: &str) -> AuditEntry {
    AuditEntry { account: Some(CAROL), details: "private".to_owned(), ..audit_entry(object) }
}

/// Must run last, because it adds an account.
pub(super) async fn run(store: &dyn Store) {
    let carol = account(CAROL, "carol", Role::Member);
    let kind = EntryKind::Credit("private".to_owned());
    let credit = Entry { account: CAROL, amount: Nanos(7), kind, at: at(10) };
    let audit = about_carol("carol");
    store.add_account(&carol, "hash", &[credit], None, &audit).await.unwrap();
    let mut usable = key("ca1", CAROL, 20);
    store.add_key(&usable, &about_carol("ca1")).await.unwrap();

    let taken = Account { name: "BOB".to_owned(), ..carol.clone() };
    expect_conflict(store.rename_account(&taken, &audit).await, "`BOB`");
    let nobody = Account { id: AccountId(Uuid::nil()), ..carol.clone() };
    let nameless = Account { name: "nobody".to_owned(), ..nobody };
    expect_not_found(store.rename_account(&nameless, &audit).await);
    let caro = Account { name: "Caro".to_owned(), ..carol };
    store.rename_account(&caro, &about_carol("Caro")).await.unwrap();
    assert_eq!(store.find_password_hash("CARO").await.unwrap().map(|(id, _)| id), Some(CAROL));
    assert_eq!(store.find_password_hash("carol").await.unwrap(), None);

    let closed = Account { status: AccountStatus::Closed, ..caro };
    usable.revoked_at = Some(at(30));
    let reset = reset(9, CAROL);
    store.add_password_reset(&reset, &about_carol("Caro")).await.unwrap();
    let revoked = store.close_account(&closed, at(30), &about_carol("Caro")).await.unwrap();
    assert_eq!(revoked, [usable]);
    assert_eq!(store.find_password_reset(reset.digest).await.unwrap(), None);
    assert!(store.close_account(&closed, at(40), &audit).await.unwrap().is_empty());
    assert!(store.load().await.unwrap().accounts.contains(&closed));

    let deleted = closed.deleted();
    let audit = AuditEntry { details: String::new(), ..about_carol(&deleted.name) };
    store.delete_account(&deleted, "unusable", at(50), &audit).await.unwrap();
    let hash = store.find_password_hash(&deleted.name).await.unwrap();
    assert_eq!(hash, Some((CAROL, "unusable".to_owned())));
    while store.purge_deleted(at(50), 2).await.unwrap() > 0 {}
    store.scrub().await.unwrap();
    let filter = AuditFilter { account: Some(CAROL), ..AuditFilter::default() };
    let log = store.audit_before(&filter, None, 99).await.unwrap();
    assert_eq!(log.len(), 7);
    for (_, entry) in &log {
        assert_eq!(entry.details, "");
        assert!(entry.object == deleted.name, "{entry:?}");
    }
    let (key, _) = store.keys(Some(CAROL)).await.unwrap().remove(0);
    assert_eq!(key.label, "");
    let entries = store.entries_before(Some(CAROL), None, 9).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].1.kind, EntryKind::Credit(String::new()));
    assert_eq!(store.balance(CAROL).await.unwrap(), Nanos(7));
    assert_eq!(store.purge_deleted(at(51), 2).await.unwrap(), 0);
    store.delete_account(&deleted, "unusable", at(60), &audit).await.unwrap();
}
