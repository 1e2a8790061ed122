//! Codes for new passwords.

use super::{ALICE, BOB, at, audit_entry, expect_conflict, expect_not_found};
use crate::Store;
use domain::account::{OperatorToken, PasswordReset, Session};
use domain::id::{AccountId, SessionId};

/// Returns a code for `account`, valid from minute 100 to 160.
pub(super) fn reset(code: u8, account: AccountId) -> PasswordReset {
    PasswordReset {
        digest: [code; 32],
        account,
        created_by: ALICE,
        created_at: at(100),
        expires_at: at(160),
    }
}

/// Needs the accounts of Alice and Bob.
pub(super) async fn run(store: &dyn Store) {
    let find = async |code: u8| store.find_password_reset([code; 32]).await.unwrap();
    let add =
        async |reset: PasswordReset| store.add_password_reset(&reset, &audit_entry("p")).await;
    let hash = async || store.find_password_hash("bob").await.unwrap().unwrap().1;
    add(reset(1, BOB)).await.unwrap();
    assert_eq!(find(1).await, Some(reset(1, BOB)));
    add(reset(2, BOB)).await.unwrap();
    assert_eq!((find(1).await, find(2).await), (None, Some(reset(2, BOB))), "replaced");
    expect_conflict(add(reset(2, ALICE)).await, "exists");
    expect_not_found(add(reset(3, AccountId(uuid::Uuid::nil()))).await);

    // The use of a code ends all sessions of its account.
    let session = Session {
        id: SessionId::new("of bob"),
        digest: [77; 32],
        account: BOB,
        created_at: at(50),
        expires_at: at(900),
    };
    store.add_session(&session, "hash of bob", 9, &audit_entry("s")).await.unwrap();
    let accept =
        async |code: u8| store.use_password_reset([code; 32], "reset", &audit_entry("p")).await;
    expect_not_found(accept(1).await);
    accept(2).await.unwrap();
    assert_eq!(hash().await, "reset");
    assert!(store.sessions(BOB).await.unwrap().is_empty());
    expect_not_found(accept(2).await);

    // Expired codes are deleted with the next new one, others with a change of the password.
    add(reset(4, ALICE)).await.unwrap();
    let late = PasswordReset { created_at: at(160), ..reset(5, BOB) };
    add(late).await.unwrap();
    assert_eq!(find(4).await, None);
    store.set_password(BOB, "reset", "changed", None, &audit_entry("p")).await.unwrap();
    assert_eq!((find(5).await, hash().await), (None, "changed".to_owned()));

    // Codes end with the access of the account that created them.
    add(reset(6, BOB)).await.unwrap();
    let token = OperatorToken { is_enabled: true, digest: Some([2; 32]) };
    store.set_operator_token(&token, ALICE, &audit_entry("t")).await.unwrap();
    assert_eq!(find(6).await, None);
    let enabled = OperatorToken { digest: None, ..token };
    store.set_operator_token(&enabled, ALICE, &audit_entry("t")).await.unwrap();
    // The migration between backends copies it.
    add(PasswordReset { created_by: BOB, ..reset(7, BOB) }).await.unwrap();
}
