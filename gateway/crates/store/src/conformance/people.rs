//! The people of accounts.

use uuid::Uuid;

use super::identities::account;
use super::password_resets::reset;
use super::{ALICE, at, audit_entry, expect_conflict, expect_not_found};
use crate::{AuditFilter, FoundSession, Store};
use domain::account::{Account, AccountStatus, PasswordReset, Role, Session};
use domain::audit::AuditEntry;
use domain::id::{AccountId, SessionId};
use domain::idempotency::AdminCall;
use domain::person::{Person, PersonRole};
use domain::source::CallAddress;

const TEAM: AccountId = AccountId(Uuid::from_u128(0x7ea));
const DORA: AccountId = AccountId(Uuid::from_u128(0xd02a));
const ERIC: AccountId = AccountId(Uuid::from_u128(0xe21c));

fn person(id: AccountId, name: &str, minute: i64) -> Person {
    Person {
        id,
        account: TEAM,
        name: name.to_owned(),
        role: PersonRole::Member,
        is_removed: false,
        created_at: at(minute),
    }
}

fn session(person: AccountId, n: u8) -> Session {
    Session {
        id: SessionId::new(format!("p{n}")),
        digest: [n; 32],
        account: person,
        created_at: at(1),
        expires_at: at(900),
    }
}

/// Needs the accounts of Alice and Bob. Leaves a team whose people were removed or forgotten.
pub(super) async fn run(store: &dyn Store) {
    let team = account(TEAM, "team", Role::Member);
    let audit = || audit_entry("p");
    store.add_account(&team, "hash", &[], None, &audit()).await.unwrap();
    let dora = person(DORA, "Dora", 20);
    let add = async |person: &Person, code: u8| {
        let code = PasswordReset { created_by: TEAM, ..reset(code, person.id) };
        store.add_person(person, "unusable", &code, &audit()).await
    };
    add(&dora, 60).await.unwrap();
    assert_eq!(store.find_password_hash("dora").await.unwrap(), Some((DORA, "unusable".into())));
    // A name is that of one account or one person.
    expect_conflict(add(&person(ERIC, "BOB", 30), 61).await, "`BOB`");
    expect_conflict(add(&person(ERIC, "dorA", 30), 61).await, "`dorA`");
    let other = account(ERIC, "DORA", Role::Member);
    expect_conflict(store.add_account(&other, "", &[], None, &audit()).await, "`DORA`");
    let renamed = Account { name: "dora".into(), ..team.clone() };
    expect_conflict(store.rename_account(&renamed, &audit()).await, "`dora`");
    let homeless = Person { account: AccountId(Uuid::nil()), ..person(ERIC, "eric", 30) };
    expect_not_found(add(&homeless, 61).await);
    assert_eq!(store.find_password_reset([61; 32]).await.unwrap(), None);
    let mut eric = person(ERIC, "eric", 30);
    add(&eric, 61).await.unwrap();
    assert_eq!(store.people(TEAM).await.unwrap(), [dora.clone(), eric.clone()]);
    assert!(store.people(ALICE).await.unwrap().is_empty());
    let everything = store.load().await.unwrap();
    assert!(everything.people.contains(&dora) && everything.people.contains(&eric));
    assert!(everything.accounts.iter().all(|account| account.id != DORA));

    // The code sets the password, and the session acts for the account.
    store.use_password_reset([60; 32], "of dora", &audit()).await.unwrap();
    assert_eq!(store.find_password_hash("DORA").await.unwrap(), Some((DORA, "of dora".into())));
    store.add_session(&session(DORA, 60), "of dora", 9, &audit()).await.unwrap();
    let found = FoundSession {
        session: session(DORA, 60),
        account: team.clone(),
        person: Some(dora.clone()),
    };
    assert_eq!(store.find_session([60; 32]).await.unwrap(), Some(found));
    assert_eq!(store.sessions(DORA).await.unwrap().len(), 1);
    assert!(store.sessions(TEAM).await.unwrap().is_empty());

    // Codes do not become valid again with a role that is given back. The invitation of the person stays valid.
    eric.role = PersonRole::Admin;
    store.set_person_role(&eric, &audit()).await.unwrap();
    assert_eq!(store.people(TEAM).await.unwrap()[1], eric);
    let code = PasswordReset { created_by: ERIC, ..reset(62, DORA) };
    store.add_password_reset(&code, &audit()).await.unwrap();
    eric.role = PersonRole::Member;
    store.set_person_role(&eric, &audit()).await.unwrap();
    assert_eq!(store.find_password_reset([62; 32]).await.unwrap(), None);
    let invitation = store.find_password_reset([61; 32]).await.unwrap();
    assert_eq!(invitation.map(|code| code.account), Some(ERIC));

    // A removed person keeps its name for the log, and another one may take it.
    store.remove_person(DORA, "unusable", &audit()).await.unwrap();
    assert_eq!(store.find_session([60; 32]).await.unwrap(), None);
    assert_eq!(store.find_password_hash("dora").await.unwrap(), None);
    let removed = Person { is_removed: true, ..dora.clone() };
    assert_eq!(store.people(TEAM).await.unwrap()[0], removed);
    expect_not_found(store.remove_person(DORA, "unusable", &audit()).await);
    expect_not_found(store.set_person_role(&dora, &audit()).await);
    expect_not_found(store.remove_person(ALICE, "unusable", &audit()).await);
    expect_not_found(store.set_person_role(&Person { id: ALICE, ..dora.clone() }, &audit()).await);
    let second = person(AccountId(Uuid::from_u128(0xd02b)), "Dora", 40);
    add(&second, 63).await.unwrap();

    // The end of the account is that of its people.
    store.add_session(&session(second.id, 63), "unusable", 9, &audit()).await.unwrap();
    store.add_session(&session(ERIC, 61), "unusable", 9, &audit()).await.unwrap();
    let closed = Account { status: AccountStatus::Closed, ..team };
    store.close_account(&closed, at(200), &audit()).await.unwrap();
    for digest in [61, 63] {
        assert_eq!(store.find_session([digest; 32]).await.unwrap(), None);
        assert_eq!(store.find_password_reset([digest; 32]).await.unwrap(), None);
    }
    let call = AdminCall { method: "Test", key: "of eric".to_owned(), digest: [1; 32] };
    let of_eric = AuditEntry {
        actor: Some(ERIC),
        account: Some(TEAM),
        address: Some(CallAddress::UnixSocket),
        call: Some(call.clone()),
        ..audit_entry("eric")
    };
    store.add_audit(&of_eric).await.unwrap();
    let deleted = closed.deleted();
    store.delete_account(&deleted, "unusable", at(201), &audit()).await.unwrap();
    assert_eq!(store.find_call(ERIC, &call).await.unwrap(), None);
    while store.purge_deleted(at(201), 9).await.unwrap() > 0 {}
    let people = store.people(TEAM).await.unwrap();
    assert_eq!(people.len(), 3);
    for person in people {
        assert!(person.is_removed && person.name == format!("deleted-{}", person.id), "{person:?}");
    }
    assert_eq!(store.find_password_hash("eric").await.unwrap(), None);
    let filter = AuditFilter { account: Some(ERIC), ..AuditFilter::default() };
    let log = store.audit_before(&filter, None, 9).await.unwrap();
    assert_eq!(log.len(), 1);
    assert_eq!((&log[0].1.object, log[0].1.address), (&deleted.name, None));
}
