//! Password guessing is slowed down and audited, without locking out the account's owner.

use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use tests::{ManualClock, Product, Session};
use tokio::task::JoinSet;
use tonic::{Code, Status};

const WRONG: &str = "wrong password";

async fn sign_in(product: &Product, name: &str, password: &str) -> Result<(), Status> {
    let request = v1::SignInRequest { name: name.to_owned(), password: password.to_owned() };
    product.anonymous().await.accounts().sign_in(request).await.map(|_| ())
}

fn password_of(name: &str) -> String {
    format!("correct horse battery {name}")
}

/// Checks that an attempt was refused without a password check. Returns the required wait in
/// seconds.
#[track_caller]
fn wait_of(refused: Result<(), Status>) -> u64 {
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains("try again in"), "{refused:?}");
    refused.metadata().get("retry-after").unwrap().to_str().unwrap().parse().unwrap()
}

/// Returns the audit log's entries for `action`, newest first, as (account, details).
async fn audited(operator: &Session, action: &str) -> Vec<(String, String)> {
    let log = operator.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    let entries = log.into_inner().entries.into_iter().filter(|entry| entry.action == action);
    let entries = entries.inspect(|entry| {
        let expected = if entry.details.ends_with("from 127.0.0.1") { "127.0.0.1" } else { "unix" };
        assert_eq!(entry.address, expected, "{entry:?}");
    });
    entries.map(|entry| (entry.account, entry.details)).collect()
}

#[tokio::test]
async fn each_wrong_password_lengthens_the_wait() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let product = Product::with(|setup| setup.clock = Arc::new(clock.clone())).await;
    product.member("alice").await;
    for name in ["alice", "nobody"] {
        for _ in 0..5 {
            assert_eq!(
                sign_in(&product, name, WRONG).await.unwrap_err().code(),
                Code::Unauthenticated
            );
        }
        // the right password is not checked either, and an unknown account gives the same error
        assert_eq!(wait_of(sign_in(&product, name, &password_of(name)).await), 1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(sign_in(&product, name, WRONG).await.unwrap_err().code(), Code::Unauthenticated);
        assert_eq!(wait_of(sign_in(&product, name, &password_of(name)).await), 2);
    }
    clock.advance(Duration::from_secs(2));
    sign_in(&product, "alice", &password_of("alice")).await.unwrap();
    assert_eq!(sign_in(&product, "alice", WRONG).await.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test]
async fn parallel_attempts_on_one_account_do_not_lock_out_others() {
    // the clock is stopped: the wait does not expire
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let product = Product::with(|setup| setup.clock = Arc::new(clock)).await;
    product.member("alice").await;
    product.member("bob").await;
    let product = Arc::new(product);
    let mut attempts = JoinSet::new();
    for _ in 0..40 {
        let product = product.clone();
        attempts.spawn(async move { sign_in(&product, "alice", WRONG).await });
    }
    sign_in(&product, "bob", &password_of("bob")).await.unwrap();
    let refused = attempts.join_all().await;
    let codes: Vec<_> = refused.into_iter().map(|it| it.unwrap_err().code()).collect();
    let checked = codes.iter().filter(|code| **code == Code::Unauthenticated).count();
    assert_eq!(checked, 5, "{codes:?}");
}

#[tokio::test]
async fn password_changes_in_a_session_are_throttled_like_sign_ins() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let product = Product::with(|setup| setup.clock = Arc::new(clock.clone())).await;
    let alice = product.member("alice").await;
    let change = async |old: &str| {
        let (old_password, new_password) = (old.to_owned(), "another horse".to_owned());
        let request = v1::ChangePasswordRequest { old_password, new_password };
        alice.accounts().change_password(request).await.map(|_| ())
    };
    for _ in 0..5 {
        assert_eq!(change(WRONG).await.unwrap_err().code(), Code::PermissionDenied);
    }
    assert_eq!(wait_of(change(&password_of("alice")).await), 1);
    sign_in(&product, "alice", &password_of("alice")).await.unwrap();
    clock.advance(Duration::from_secs(1));
    change(&password_of("alice")).await.unwrap();
}

#[tokio::test]
async fn sign_ins_failures_and_refused_tokens_are_audited_in_bounded_space() {
    // an admin plane at a port, whose clients have addresses
    let product = Product::on_http1(|_| {}).await;
    product.member("alice").await;
    for name in ["alice", "nobody"] {
        for _ in 0..20 {
            sign_in(&product, name, WRONG).await.unwrap_err();
        }
    }
    for _ in 0..20 {
        let thief = Session::with_token(&product.admin, "thief", "tgs-0000").await;
        let refused = thief.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    // a shutdown writes the entries that are still merged in memory
    let product = product.stop().await.start().await;
    let operator = product.operator().await;
    let entry = |account: &str, details: &str| (account.to_owned(), details.to_owned());
    assert_eq!(audited(&operator, "session.create").await, [entry("alice", "from 127.0.0.1")]);
    let failed = ["19 times, from 127.0.0.1", "once, from 127.0.0.1"];
    assert_eq!(audited(&operator, "session.refuse").await, failed.map(|it| entry("alice", it)));
    assert_eq!(audited(&operator, "token.refuse").await, failed.map(|it| entry("", it)));
}
