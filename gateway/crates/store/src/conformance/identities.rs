//! Accounts, invites, sessions and keys.

use std::time::Duration;

use super::{ALICE, BOB, at, audit_entry, expect_conflict, expect_not_found};
use crate::{FoundSession, Store};
use domain::account::{Account, AccountStatus, Invite, InviteUse, Role, Session};
use domain::id::{AccountId, InviteId, KeyId, ModelId, PlanName, SessionId};
use domain::key::{ClientGone, Key, KeyDigest, Translation};
use domain::ledger::{Entry, EntryKind};
use domain::limit::Limits;
use domain::money::Nanos;

/// The first password hash of the account `ALICE`.
const HASH: &str = "hash of alice";

pub(super) async fn run(store: &dyn Store) {
    accounts_are_added(store).await;
    sessions_are_added_and_removed(store).await;
    keys_are_added_and_revoked(store).await;
    accounts_are_updated(store).await;
}

async fn accounts_are_added(store: &dyn Store) {
    let alice = account(ALICE, "Älice@Example.org", Role::Operator);
    let bob = account(BOB, "bob", Role::Member);
    let trial = entry(ALICE, 5_000);
    store
        .add_account(&alice, HASH, std::slice::from_ref(&trial), None, &audit_entry("a"))
        .await
        .unwrap();
    expect_conflict(
        store
            .add_account(
                &account(BOB, "äLICE@example.ORG", Role::Member),
                "",
                &[],
                None,
                &audit_entry("a"),
            )
            .await,
        "`äLICE@example.ORG`",
    );

    for code in [10, 20, 30] {
        store.add_invite(&invite(code), 3, &audit_entry("i")).await.unwrap();
    }
    expect_conflict(store.add_invite(&invite(40), 3, &audit_entry("i")).await, "can still be used");
    expect_conflict(store.add_invite(&invite(10), 9, &audit_entry("i")).await, "exists");
    assert_eq!(store.find_invite([20; 32]).await.unwrap(), Some(invite(20)));
    assert_eq!(store.find_invite([99; 32]).await.unwrap(), None);
    // Bob registers at minute 10, when the first invite has just expired.
    expect_not_found(store.add_account(&bob, "", &[], Some([10; 32]), &audit_entry("a")).await);
    expect_not_found(store.add_account(&bob, "", &[], Some([99; 32]), &audit_entry("a")).await);
    let taken = account(BOB, "älice@example.org", Role::Member);
    expect_conflict(
        store.add_account(&taken, "", &[], Some([20; 32]), &audit_entry("a")).await,
        "exists",
    );
    // A conflict does not consume the invite; success does. Other credit does not count as trial
    // credit.
    let credit = Entry { kind: EntryKind::Credit("to begin with".into()), ..entry(BOB, 60) };
    let code = Some([20; 32]);
    store.add_account(&bob, "hash of bob", &[credit], code, &audit_entry("a")).await.unwrap();
    let eve = account(AccountId(uuid::Uuid::from_u128(0xe5e)), "eve", Role::Member);
    expect_not_found(
        store.add_account(&eve, "", &[entry(eve.id, 9)], Some([20; 32]), &audit_entry("a")).await,
    );

    invites_are_listed_and_revoked(store).await;
    for (minute, given) in [(0, 5_000), (1_439, 5_000), (1_440, 0), (-1, 0)] {
        assert_eq!(store.trial_given(at(minute)).await.unwrap(), Nanos(given), "{minute}");
    }
    let hash = store.find_password_hash("ÄLICE@EXAMPLE.ORG").await.unwrap();
    assert_eq!(hash, Some((ALICE, HASH.to_owned())));
    assert_eq!(store.find_password_hash("eve").await.unwrap(), None);
    let mut kept = store.load().await.unwrap();
    kept.accounts.sort_by_key(|account| account.created_at);
    kept.accounts.sort_by_key(|account| account.id);
    assert_eq!(kept.accounts, [bob, alice]);
    assert_eq!(kept.balances, [(BOB, Nanos(60)), (ALICE, Nanos(5_000))]);
}

fn invite(code: u8) -> Invite {
    Invite {
        id: InviteId::new(format!("i{code}")),
        digest: [code; 32],
        created_by: (code == 30).then_some(ALICE),
        created_at: at(0),
        expires_at: at(i64::from(code)),
        plan: (code == 20).then(|| PlanName::new("pro")),
        credit: (code == 20).then_some(Nanos(60)),
        used: None,
    }
}

/// The first invite has expired, the second was used by Bob at minute 10, the third is open.
async fn invites_are_listed_and_revoked(store: &dyn Store) {
    let used = InviteUse { at: at(10), by: BOB };
    let used = Invite { expires_at: at(10), used: Some(used), ..invite(20) };
    let listed = store.invites(9).await.unwrap();
    assert_eq!(listed, [invite(10), used.clone(), invite(30)]);
    assert_eq!(store.invites(1).await.unwrap(), listed[..1]);
    expect_not_found(store.revoke_invite(&used.id, &audit_entry("i")).await);
    expect_not_found(store.revoke_invite(&InviteId::new("nix"), &audit_entry("i")).await);
    store.revoke_invite(&invite(30).id, &audit_entry("i")).await.unwrap();
    // Adding one deletes the expired one, and neither it nor the used one count as open.
    let last = Invite { created_at: at(12), ..invite(50) };
    store.add_invite(&last, 1, &audit_entry("i")).await.unwrap();
    assert_eq!(store.invites(9).await.unwrap(), [last, used]);
}

async fn sessions_are_added_and_removed(store: &dyn Store) {
    let session = |digest: u8, from, to| Session {
        id: SessionId::new(digest.to_string()),
        digest: [digest; 32],
        account: ALICE,
        created_at: at(from),
        expires_at: at(to),
    };
    store.add_session(&session(1, 0, 10), HASH, 10, &audit_entry("o")).await.unwrap();
    store.add_session(&session(2, 5, 15), HASH, 10, &audit_entry("o")).await.unwrap();
    expect_conflict(
        store.add_session(&session(2, 5, 15), HASH, 10, &audit_entry("o")).await,
        "session",
    );
    let alice = account(ALICE, "Älice@Example.org", Role::Operator);
    let found = store.find_session([1; 32]).await.unwrap();
    assert_eq!(found, Some(owner_session(session(1, 0, 10), alice.clone())));

    store.add_session(&session(3, 12, 30), HASH, 10, &audit_entry("o")).await.unwrap();
    assert_eq!(store.find_session([1; 32]).await.unwrap(), None, "it ended before 12");
    let found = store.find_session([2; 32]).await.unwrap();
    assert_eq!(found, Some(owner_session(session(2, 5, 15), alice)));
    store.end_session(ALICE, &SessionId::new("2"), &audit_entry("s")).await.unwrap();
    assert_eq!(store.find_session([2; 32]).await.unwrap(), None);
    sessions_are_shown_and_ended(store, &session).await;
    let nobody = AccountId(uuid::Uuid::from_u128(0));
    expect_not_found(
        store
            .add_session(
                &Session { account: nobody, ..session(4, 12, 30) },
                HASH,
                10,
                &audit_entry("o"),
            )
            .await,
    );
}

/// Three is open; four and five join it. Passwords and sessions end together.
async fn sessions_are_shown_and_ended(
    store: &dyn Store,
    session: &dyn Fn(u8, i64, i64) -> Session,
) {
    let ids = async || -> Vec<String> {
        let sessions = store.sessions(ALICE).await.unwrap();
        sessions.into_iter().map(|session| session.id.to_string()).collect()
    };
    store.add_session(&session(4, 13, 40), HASH, 10, &audit_entry("o")).await.unwrap();
    store.add_session(&session(5, 14, 40), HASH, 10, &audit_entry("o")).await.unwrap();
    expect_conflict(
        store
            .add_session(
                &Session { digest: [6; 32], ..session(5, 14, 40) },
                HASH,
                10,
                &audit_entry("o"),
            )
            .await,
        "session",
    );
    assert_eq!(ids().await, ["5", "4", "3"]);
    let four = SessionId::new("4");
    expect_not_found(store.end_session(BOB, &four, &audit_entry("s")).await);
    store.end_session(ALICE, &four, &audit_entry("s")).await.unwrap();
    expect_not_found(store.end_session(ALICE, &four, &audit_entry("s")).await);
    assert_eq!(store.end_other_sessions(BOB, Some([3; 32]), &audit_entry("s")).await.unwrap(), 0);
    assert_eq!(ids().await, ["5", "3"]);
    // The bound ends the oldest session of the account, and no other account's.
    let of_bob = Session { account: BOB, ..session(7, 1, 40) };
    store.add_session(&of_bob, "hash of bob", 1, &audit_entry("o")).await.unwrap();
    store.add_session(&session(8, 15, 40), HASH, 2, &audit_entry("o")).await.unwrap();
    assert_eq!(ids().await, ["8", "5"]);
    store.end_session(ALICE, &SessionId::new("8"), &audit_entry("s")).await.unwrap();
    store.add_session(&session(3, 12, 30), HASH, 2, &audit_entry("o")).await.unwrap();
    assert_eq!(
        store.find_session([7; 32]).await.unwrap(),
        Some(owner_session(of_bob, account(BOB, "bob", Role::Member)))
    );
    assert_eq!(ids().await, ["5", "3"]);
    let set = store.set_password(ALICE, HASH, "new hash", Some([3; 32]), &audit_entry("s")).await;
    assert_eq!(set.unwrap(), 1);
    // Neither a session nor a change can be based on the former password.
    expect_not_found(store.add_session(&session(10, 15, 60), HASH, 10, &audit_entry("s")).await);
    expect_not_found(store.set_password(ALICE, HASH, "other", None, &audit_entry("s")).await);
    assert_eq!(ids().await, ["3"]);
    let hash = store.find_password_hash("älice@example.org").await.unwrap();
    assert_eq!(hash, Some((ALICE, "new hash".to_owned())));
    let nobody = AccountId(uuid::Uuid::nil());
    expect_not_found(store.set_password(nobody, HASH, "", None, &audit_entry("s")).await);
    assert_eq!(store.end_other_sessions(ALICE, None, &audit_entry("x")).await.unwrap(), 1);
    assert_eq!(ids().await, [""; 0]);
    store.add_session(&session(9, 15, 60), "new hash", 10, &audit_entry("x")).await.unwrap();
}

async fn found(store: &dyn Store, id: &KeyId) -> Option<Key> {
    store.find_key(id).await.unwrap().map(|(key, _)| key)
}

/// All settings of a key can change; of several keys, all change or none.
async fn keys_are_updated(store: &dyn Store, kept: &Key, revoked: &Key) {
    let limits = Limits { rpm: Some(1), monthly_tokens: Some(9), ..Limits::default() };
    let changed = Key {
        label: "other".to_owned(),
        limits,
        spend_cap: Some(Nanos(5)),
        models: Vec::new(),
        translation: Translation::OmitHostedTools,
        client_gone: ClientGone::Drain(Duration::from_mins(2)),
        trace_content: true,
        expires_at: Some(at(70)),
        ..kept.clone()
    };
    let both = [changed.clone(), revoked.clone()];
    expect_not_found(store.update_keys(&both, &audit_entry("u")).await);
    assert_eq!(found(store, &kept.id).await.as_ref(), Some(kept));
    store.update_keys(std::slice::from_ref(&changed), &audit_entry("u")).await.unwrap();
    assert_eq!(found(store, &kept.id).await, Some(changed));
    store.update_keys(std::slice::from_ref(kept), &audit_entry("u")).await.unwrap();
    assert_eq!(found(store, &kept.id).await.as_ref(), Some(kept));
}

/// A rotation writes both keys or neither.
async fn keys_are_rotated(store: &dyn Store, old: &Key) {
    let new = key("a3", ALICE, 5);
    let retired = Key { expires_at: Some(at(70)), successor: Some(new.id.clone()), ..old.clone() };
    let taken = Key { digest: old.digest, ..new.clone() };
    expect_conflict(store.rotate_key(&retired, &taken, &audit_entry("r")).await, "`a3`");
    assert_eq!(found(store, &old.id).await.as_ref(), Some(old));
    store.rotate_key(&retired, &new, &audit_entry("r")).await.unwrap();
    assert_eq!(found(store, &old.id).await, Some(retired.clone()));
    assert_eq!(found(store, &new.id).await, Some(new));
    let third = key("a4", ALICE, 6);
    expect_not_found(store.rotate_key(&retired, &third, &audit_entry("r")).await);
    assert_eq!(found(store, &third.id).await, None);
}

async fn accounts_are_updated(store: &dyn Store) {
    let bob = Account {
        status: AccountStatus::Suspended,
        plan: PlanName::new("pro"),
        ..account(BOB, "bob", Role::Member)
    };
    store.update_account(&bob, &audit_entry("c")).await.unwrap();
    assert!(store.load().await.unwrap().accounts.contains(&bob));
    for role in Role::ALL {
        let bob = Account { role, ..bob.clone() };
        store.update_account(&bob, &audit_entry("x")).await.unwrap();
        assert!(store.load().await.unwrap().accounts.contains(&bob));
    }
    let nobody = Account { id: AccountId(uuid::Uuid::nil()), ..bob };
    expect_not_found(store.update_account(&nobody, &audit_entry("c")).await);
}

async fn keys_are_added_and_revoked(store: &dyn Store) {
    let mut keys = [key("a1", ALICE, 1), key("a2", ALICE, 2), key("b1", BOB, 3)];
    for key in &keys {
        store.add_key(key, &audit_entry("k")).await.unwrap();
    }
    expect_conflict(store.add_key(&keys[0], &audit_entry("k")).await, "`a1`");
    let same_digest = Key { id: KeyId::new("a9"), ..keys[0].clone() };
    expect_conflict(store.add_key(&same_digest, &audit_entry("k")).await, "`a9`");
    expect_not_found(
        store.add_key(&key("c1", AccountId(uuid::Uuid::nil()), 4), &audit_entry("k")).await,
    );

    store.revoke_key(&keys[1].id, at(50), &audit_entry("k")).await.unwrap();
    store.revoke_key(&keys[1].id, at(60), &audit_entry("k")).await.unwrap();
    expect_not_found(store.revoke_key(&KeyId::new("c1"), at(50), &audit_entry("k")).await);
    keys[1].revoked_at = Some(at(50));

    for key in &keys {
        assert_eq!(found(store, &key.id).await.as_ref(), Some(key));
    }
    assert_eq!(store.find_key(&KeyId::new("c1")).await.unwrap(), None);
    let [a1, a2, b1] = keys.map(|key| (key, None));
    let all = [b1.clone(), a2.clone(), a1.clone()];
    assert_eq!(store.keys(None).await.unwrap(), all);
    assert_eq!(store.keys(Some(ALICE)).await.unwrap(), [a2.clone(), a1.clone()]);
    // One of Alice's two keys is revoked; Bob's expires at minute 9,000.
    let usable =
        async |account, minute| store.count_usable_keys(account, at(minute)).await.unwrap();
    assert_eq!([usable(ALICE, 9_000).await, usable(BOB, 8_999).await], [1, 1]);
    assert_eq!(usable(BOB, 9_000).await, 0);
    let mut kept = store.load().await.unwrap().keys;
    kept.sort_by_key(|key| key.created_at);
    assert_eq!(kept, [a1.0.clone(), b1.0], "without the revoked one");
    keys_are_updated(store, &a1.0, &a2.0).await;
    keys_are_rotated(store, &a1.0).await;
}

pub(crate) fn account(id: AccountId, name: &str, role: Role) -> Account {
    Account {
        id,
        name: name.to_owned(),
        role,
        status: AccountStatus::Active,
        plan: PlanName::new("free"),
        created_at: at(10),
    }
}

pub(crate) fn key(id: &str, account: AccountId, minute: i64) -> Key {
    Key {
        id: KeyId::new(id),
        digest: KeyDigest::of(id),
        account,
        label: "for \"work\"".to_owned(),
        origin: KeyId::new(id),
        limits: Limits {
            tpm: Some(0),
            concurrency: Some(3),
            monthly_tokens: (account == BOB).then_some(1_000),
            observe: account == BOB,
            ..Limits::default()
        },
        spend_cap: (account == BOB).then_some(Nanos(7)),
        models: vec![ModelId::new("gpt")],
        translation: if account == BOB { Translation::Strict } else { Translation::Lenient },
        client_gone: if account == BOB {
            ClientGone::Drain(Duration::from_mins(1))
        } else {
            ClientGone::Cancel
        },
        trace_content: false,
        created_by: (account == BOB).then_some(BOB),
        created_at: at(minute),
        expires_at: (account == BOB).then(|| at(9_000)),
        revoked_at: None,
        successor: None,
    }
}

fn owner_session(session: Session, account: Account) -> FoundSession {
    FoundSession { session, account, person: None }
}

fn entry(account: AccountId, amount: i64) -> Entry {
    Entry { account, amount: Nanos(amount), kind: EntryKind::Trial, at: at(10) }
}
