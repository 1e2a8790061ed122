//! Accounts, invites, sessions and keys.

use super::{ALICE, BOB, at, conflicts, is_not_found};
use crate::domain::account::{Account, AccountStatus, Invite, Role, Session};
use crate::domain::id::{AccountId, KeyId, ModelId, PlanName};
use crate::domain::key::{Key, KeyDigest, Translation};
use crate::domain::ledger::{Entry, EntryKind};
use crate::domain::limit::Limits;
use crate::domain::money::Nanos;
use crate::store::Store;

pub(super) async fn play(store: &dyn Store) {
    accounts_join(store).await;
    sessions_come_and_go(store).await;
    keys_are_made_and_revoked(store).await;
}

async fn accounts_join(store: &dyn Store) {
    let alice = account(ALICE, "Älice@Example.org", Role::Operator);
    let bob = account(BOB, "bob", Role::Member);
    let trial = entry(ALICE, 5_000);
    store.add_account(&alice, "hash of alice", Some(&trial), None).await.unwrap();
    conflicts(
        store.add_account(&account(BOB, "äLICE@example.ORG", Role::Member), "", None, None).await,
        "`äLICE@example.ORG`",
    );

    let invite =
        |code| Invite { digest: [code; 32], created_at: at(0), expires_at: at(i64::from(code)) };
    for code in [10, 20, 30] {
        store.add_invite(&invite(code)).await.unwrap();
    }
    conflicts(store.add_invite(&invite(10)).await, "invite");
    // Bob comes at minute 10, when the first invite has just ended.
    is_not_found(store.add_account(&bob, "", None, Some([10; 32])).await);
    is_not_found(store.add_account(&bob, "", None, Some([99; 32])).await);
    let taken = account(BOB, "älice@example.org", Role::Member);
    conflicts(store.add_account(&taken, "", None, Some([20; 32])).await, "exists");
    // The conflict did not use the invite up; success does.
    store.add_account(&bob, "hash of bob", None, Some([20; 32])).await.unwrap();
    let eve = account(AccountId(uuid::Uuid::from_u128(0xe5e)), "eve", Role::Member);
    is_not_found(store.add_account(&eve, "", Some(&entry(eve.id, 9)), Some([20; 32])).await);

    let hash = store.find_password_hash("ÄLICE@EXAMPLE.ORG").await.unwrap();
    assert_eq!(hash, Some((ALICE, "hash of alice".to_owned())));
    assert_eq!(store.find_password_hash("eve").await.unwrap(), None);
    let mut kept = store.load().await.unwrap();
    kept.accounts.sort_by_key(|account| account.created_at);
    kept.accounts.sort_by_key(|account| account.id);
    assert_eq!(kept.accounts, [bob, alice]);
    assert_eq!(kept.balances, [(ALICE, Nanos(5_000))]);
}

async fn sessions_come_and_go(store: &dyn Store) {
    let session = |digest, from, to| Session {
        digest: [digest; 32],
        account: ALICE,
        created_at: at(from),
        expires_at: at(to),
    };
    store.add_session(&session(1, 0, 10)).await.unwrap();
    store.add_session(&session(2, 5, 15)).await.unwrap();
    conflicts(store.add_session(&session(2, 5, 15)).await, "session");
    assert_eq!(store.find_session([1; 32]).await.unwrap(), Some(session(1, 0, 10)));

    store.add_session(&session(3, 12, 30)).await.unwrap();
    assert_eq!(store.find_session([1; 32]).await.unwrap(), None, "it ended before 12");
    assert_eq!(store.find_session([2; 32]).await.unwrap(), Some(session(2, 5, 15)));
    store.remove_session([2; 32]).await.unwrap();
    store.remove_session([2; 32]).await.unwrap();
    assert_eq!(store.find_session([2; 32]).await.unwrap(), None);
    let nobody = AccountId(uuid::Uuid::from_u128(0));
    is_not_found(store.add_session(&Session { account: nobody, ..session(4, 12, 30) }).await);
}

async fn keys_are_made_and_revoked(store: &dyn Store) {
    let mut keys = [key("a1", ALICE, 1), key("a2", ALICE, 2), key("b1", BOB, 3)];
    for key in &keys {
        store.add_key(key).await.unwrap();
    }
    conflicts(store.add_key(&keys[0]).await, "`a1`");
    let same_digest = Key { id: KeyId::new("a9"), ..keys[0].clone() };
    conflicts(store.add_key(&same_digest).await, "`a9`");
    is_not_found(store.add_key(&key("c1", AccountId(uuid::Uuid::nil()), 4)).await);

    store.revoke_key(&keys[1].id, at(50)).await.unwrap();
    store.revoke_key(&keys[1].id, at(60)).await.unwrap();
    is_not_found(store.revoke_key(&KeyId::new("c1"), at(50)).await);
    keys[1].revoked_at = Some(at(50));

    for key in &keys {
        assert_eq!(store.find_key(&key.id).await.unwrap().as_ref(), Some(key));
    }
    assert_eq!(store.find_key(&KeyId::new("c1")).await.unwrap(), None);
    let [a1, a2, b1] = keys.map(|key| (key, None));
    let all = [b1.clone(), a2.clone(), a1.clone()];
    assert_eq!(store.keys(None).await.unwrap(), all);
    assert_eq!(store.keys(Some(ALICE)).await.unwrap(), [a2, a1.clone()]);
    let mut kept = store.load().await.unwrap().keys;
    kept.sort_by_key(|key| key.created_at);
    assert_eq!(kept, [a1.0, b1.0], "without the revoked one");
}

fn account(id: AccountId, name: &str, role: Role) -> Account {
    Account {
        id,
        name: name.to_owned(),
        role,
        status: AccountStatus::Active,
        plan: PlanName::new("free"),
        created_at: at(10),
    }
}

fn key(id: &str, account: AccountId, minute: i64) -> Key {
    Key {
        id: KeyId::new(id),
        digest: KeyDigest::of(id),
        account,
        label: "for \"work\"".to_owned(),
        limits: Limits { rpm: None, tpm: Some(0), concurrency: Some(3) },
        models: vec![ModelId::new("gpt")],
        translation: if account == BOB { Translation::Strict } else { Translation::Lenient },
        created_at: at(minute),
        expires_at: (account == BOB).then(|| at(9_000)),
        revoked_at: None,
    }
}

fn entry(account: AccountId, amount: i64) -> Entry {
    Entry { account, amount: Nanos(amount), kind: EntryKind::Trial, at: at(10) }
}
