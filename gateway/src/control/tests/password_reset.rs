//! Codes for new passwords.

use std::net::IpAddr;

use secrecy::ExposeSecret;

use super::super::audit::AuditQuery;
use super::*;
use domain::account::Role;
use domain::audit::AuditAction;

const NEW: &str = "a better one";
const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

async fn code_for(
    bench: &Bench,
    caller: &Caller,
    name: &str,
) -> Result<SecretString, ControlError> {
    bench.control.create_password_reset(caller, name).await.map(|new| new.code)
}

async fn reset(bench: &Bench, name: &str, code: &SecretString) -> Result<(), ControlError> {
    bench.control.reset_password(Some(ADDRESS), name, code, NEW.into()).await
}

async fn grant(bench: &Bench, name: &str, role: Role) {
    bench.control.grant_role(&bench.operator, name, role).await.unwrap();
}

#[track_caller]
fn expect_refused(outcome: &Result<(), ControlError>) {
    assert!(matches!(outcome, Err(ControlError::Unauthenticated(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_code_sets_a_password_once_and_ends_all_sessions() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, _) = (bench.member("ann").await, bench.member("bob").await);
    let control = &bench.control;
    let session = control.sign_in(None, "ann", PASSWORD.into()).await.unwrap().token;
    let replaced = code_for(&bench, &bench.operator, "ann").await.unwrap();
    let code = code_for(&bench, &bench.operator, "ann").await.unwrap();
    assert!(code.expose_secret().starts_with("tgr-"));
    control.authenticate(&session, None).await.expect("nothing changes before the use");

    expect_refused(&reset(&bench, "ann", &replaced).await);
    expect_refused(&reset(&bench, "bob", &code).await);
    expect_refused(&reset(&bench, "eve", &code).await);
    let short = control.reset_password(None, "ann", &code, "short".into()).await;
    assert!(matches!(short, Err(ControlError::Invalid(_))), "{short:?}");
    reset(&bench, "ANN", &code).await.unwrap();
    control.authenticate(&session, None).await.unwrap_err();
    control.sign_in(None, "ann", PASSWORD.into()).await.unwrap_err();
    control.sign_in(None, "ann", NEW.into()).await.unwrap();
    expect_refused(&reset(&bench, "ann", &code).await);

    let log = control.list_audit(&ann, AuditQuery::default(), 99, "").await.unwrap().items;
    let found = |action: AuditAction| log.iter().find(|it| it.entry.action == action).unwrap();
    assert_eq!(found(AuditAction::AccountResetPassword).actor, "operator");
    let used = found(AuditAction::AccountPassword);
    assert_eq!((&*used.actor, &*used.entry.details), ("ann", "with a code"));
    assert_eq!(used.entry.address.unwrap().to_string(), "192.0.2.7");
}

#[tokio::test]
async fn a_code_expires_after_an_hour_and_with_a_change_of_the_password() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let expired = code_for(&bench, &bench.operator, "ann").await.unwrap();
    bench.clock.advance(Duration::from_hours(1));
    expect_refused(&reset(&bench, "ann", &expired).await);
    let code = code_for(&bench, &bench.operator, "ann").await.unwrap();
    bench.clock.advance(Duration::from_secs(3_599));
    let (old, new) = (PASSWORD.into(), "changed by ann".into());
    bench.control.change_password(&ann, None, old, new).await.unwrap();
    expect_refused(&reset(&bench, "ann", &code).await);
    let code = code_for(&bench, &bench.operator, "ann").await.unwrap();
    bench.clock.advance(Duration::from_secs(3_599));
    reset(&bench, "ann", &code).await.unwrap();
}

#[tokio::test]
async fn a_code_needs_a_creator_who_may_reset_the_account() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    bench.member("sue").await;
    bench.member("olaf").await;
    grant(&bench, "sue", Role::Support).await;
    grant(&bench, "olaf", Role::Operator).await;
    let signed_in = async |name: &str| {
        let token = bench.control.sign_in(None, name, PASSWORD.into()).await.unwrap().token;
        bench.control.authenticate(&token, None).await.unwrap()
    };
    let (ann, sue, olaf) =
        (signed_in("ann").await, signed_in("sue").await, signed_in("olaf").await);
    for caller in [&ann, &sue] {
        let refused = code_for(&bench, caller, "sue").await;
        assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    }
    for name in ["olaf", "operator"] {
        let refused = code_for(&bench, &olaf, name).await;
        assert!(matches!(refused, Err(ControlError::InUse(_))), "{refused:?}");
    }
    let code = code_for(&bench, &olaf, "ann").await.unwrap();
    // The account is now greater than the creator of the code.
    grant(&bench, "ann", Role::Owner).await;
    let refused = code_for(&bench, &olaf, "ann").await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    expect_refused(&reset(&bench, "ann", &code).await);
    grant(&bench, "ann", Role::Member).await;
    // The creator has lost its role.
    grant(&bench, "olaf", Role::Support).await;
    expect_refused(&reset(&bench, "ann", &code).await);
    grant(&bench, "olaf", Role::Operator).await;
    bench.control.suspend_account(&bench.operator, "olaf", "away").await.unwrap();
    expect_refused(&reset(&bench, "ann", &code).await);
    bench.control.resume_account(&bench.operator, "olaf").await.unwrap();
    // It does not become valid again.
    expect_refused(&reset(&bench, "ann", &code).await);
    let code = code_for(&bench, &olaf, "ann").await.unwrap();
    reset(&bench, "ann", &code).await.unwrap();
}

#[tokio::test]
async fn a_closed_account_has_no_code() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let code = code_for(&bench, &bench.operator, "ann").await.unwrap();
    bench.control.close_account(&bench.operator, "ann").await.unwrap();
    expect_refused(&reset(&bench, "ann", &code).await);
    let refused = code_for(&bench, &bench.operator, "ann").await;
    assert!(matches!(refused, Err(ControlError::InUse(_))), "{refused:?}");
    bench.control.resume_account(&bench.operator, "ann").await.unwrap();
    expect_refused(&reset(&bench, "ann", &code).await);
}

#[tokio::test]
async fn wrong_codes_are_throttled_together_with_wrong_passwords() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let code = code_for(&bench, &bench.operator, "ann").await.unwrap();
    for _ in 0..3 {
        expect_refused(&reset(&bench, "ann", &"tgr-guess".into()).await);
    }
    for _ in 0..2 {
        bench.control.sign_in(Some(ADDRESS), "ann", "wrong".into()).await.unwrap_err();
    }
    let limited = reset(&bench, "ann", &code).await;
    assert!(matches!(limited, Err(ControlError::Limited { .. })), "{limited:?}");
    bench.clock.advance(Duration::from_secs(1));
    reset(&bench, "ann", &code).await.unwrap();
}

/// Regression test: who had stolen the operator token could keep a code for an owner's account.
#[tokio::test]
async fn codes_end_with_the_access_of_their_creator() {
    let bench = Bench::new(Registration::Open).await;
    let (_, bob) = (bench.member("ann").await, bench.member("bob").await);
    let by_token = code_for(&bench, &bench.operator, "ann").await.unwrap();
    bench.control.rotate_operator_token(&bench.operator).await.unwrap();
    expect_refused(&reset(&bench, "ann", &by_token).await);

    grant(&bench, "bob", Role::Operator).await;
    let bob =
        Caller { account: bench.control.directory.find_account(bob.account.id).unwrap(), ..bob };
    let by_bob = code_for(&bench, &bob, "ann").await.unwrap();
    let (old, new) = (PASSWORD.into(), "changed by bob".into());
    bench.control.change_password(&bob, None, old, new).await.unwrap();
    expect_refused(&reset(&bench, "ann", &by_bob).await);

    // A role that is given back does not make it valid again.
    let code = code_for(&bench, &bob, "ann").await.unwrap();
    grant(&bench, "bob", Role::Member).await;
    grant(&bench, "bob", Role::Operator).await;
    expect_refused(&reset(&bench, "ann", &code).await);
}
