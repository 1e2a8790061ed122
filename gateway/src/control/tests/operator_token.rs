//! Rotation, disabling and enabling of the operator token.

use super::super::audit::AuditQuery;
use super::super::operator_token::enable_offline;
use super::*;
use domain::account::{OperatorToken, Role};
use domain::audit::AuditAction;

fn token_in(bench: &Bench, name: &str) -> SecretString {
    let text = std::fs::read_to_string(bench.dir.path().join(name)).unwrap();
    text.trim().into()
}

async fn is_accepted(bench: &Bench, token: &SecretString) -> bool {
    match bench.control.authenticate(token, None).await {
        Ok(caller) => caller.account.is_built_in(),
        Err(ControlError::Unauthenticated(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Starts again on the same data.
async fn restarted(bench: Bench) -> Bench {
    let dir = bench.dir.clone();
    drop(bench);
    Bench::over(dir, Registration::Open).await
}

/// Returns the session of a new account that is an owner.
async fn owner(bench: &Bench, name: &str) -> Caller {
    bench.member(name).await;
    bench.control.grant_role(&bench.operator, name, Role::Owner).await.unwrap();
    let token = bench.control.sign_in(None, name, PASSWORD.into()).await.unwrap().token;
    bench.control.authenticate(&token, None).await.unwrap()
}

#[tokio::test]
async fn a_rotation_stops_the_old_token_and_writes_the_new_one() {
    use std::os::unix::fs::PermissionsExt;

    let bench = Bench::new(Registration::Open).await;
    let old = bench.operator_token.clone();
    let path = bench.control.rotate_operator_token(&bench.operator).await.unwrap();
    assert_eq!(path, bench.dir.path().join(bootstrap::TOKEN_FILE));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!bench.dir.path().join("operator.token.new").exists());
    let new = token_in(&bench, bootstrap::TOKEN_FILE);
    assert!(!is_accepted(&bench, &old).await && is_accepted(&bench, &new).await);
    let log =
        bench.control.list_audit(&bench.operator, AuditQuery::default(), 1, "").await.unwrap();
    assert_eq!(log.items[0].entry.action, AuditAction::OperatorTokenRotate);

    let bench = restarted(bench).await;
    assert!(!is_accepted(&bench, &old).await && is_accepted(&bench, &new).await);
    // As ever, a new start replaces a missing token.
    std::fs::remove_file(&path).unwrap();
    let bench = restarted(bench).await;
    assert!(!is_accepted(&bench, &new).await && is_accepted(&bench, &bench.operator_token).await);
}

#[tokio::test]
async fn a_start_completes_or_undoes_a_rotation_that_a_crash_interrupted() {
    for is_stored in [false, true] {
        let bench = Bench::new(Registration::Open).await;
        let old = bench.operator_token.clone();
        let new = SecretString::from("tgo-0123456789abcdef0123456789abcdef");
        let beside = bench.dir.path().join("operator.token.new");
        std::fs::write(&beside, "tgo-0123456789abcdef0123456789abcdef\n").unwrap();
        if is_stored {
            let state =
                OperatorToken { digest: Some(token::digest(&new)), ..OperatorToken::default() };
            let audit = store_audit(&bench);
            let account = bench.operator.account.id;
            bench.control.store.set_operator_token(&state, account, &audit).await.unwrap();
        }
        let bench = restarted(bench).await;
        assert!(!beside.exists());
        assert_eq!(is_accepted(&bench, &old).await, !is_stored);
        assert_eq!(is_accepted(&bench, &new).await, is_stored);
        assert!(is_accepted(&bench, &token_in(&bench, bootstrap::TOKEN_FILE)).await);
    }
}

fn store_audit(bench: &Bench) -> domain::audit::AuditEntry {
    domain::audit::AuditEntry {
        at: bench.clock.now(),
        actor: None,
        address: None,
        action: AuditAction::OperatorTokenRotate,
        object: String::new(),
        account: None,
        details: String::new(),
        call: None,
    }
}

#[tokio::test]
async fn a_disabled_token_leaves_an_owner_who_can_sign_in() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let refused = control.disable_operator_token(&bench.operator).await;
    assert!(matches!(refused, Err(ControlError::InUse(_))), "{refused:?}");
    let ann = owner(&bench, "ann").await;
    let bob = bench.member("bob").await;
    let refused = control.disable_operator_token(&bob).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    control.disable_operator_token(&ann).await.unwrap();
    control.disable_operator_token(&ann).await.unwrap();
    let refused = control.authenticate(&bench.operator_token, None).await.unwrap_err();
    assert!(refused.to_string().contains("disabled"), "{refused}");

    // The built-in account does not count as an owner now.
    let refusals = [
        control.grant_role(&ann, "ann", Role::Member).await.map(|_| ()),
        control.suspend_account(&ann, "ann", "away").await.map(|_| ()),
    ];
    for refused in refusals {
        assert!(matches!(refused, Err(ControlError::InUse(_))), "{refused:?}");
    }
    control.rotate_operator_token(&ann).await.unwrap();
    let new = token_in(&bench, bootstrap::TOKEN_FILE);
    assert!(!is_accepted(&bench, &new).await, "a new token is disabled, too");
    control.enable_operator_token(&ann).await.unwrap();
    assert!(is_accepted(&bench, &new).await);
    control.grant_role(&ann, "ann", Role::Member).await.unwrap();
}

#[tokio::test]
async fn the_token_is_enabled_with_access_to_the_data_directory() {
    let bench = Bench::new(Registration::Open).await;
    let ann = owner(&bench, "ann").await;
    bench.control.disable_operator_token(&ann).await.unwrap();
    let (dir, store) = (bench.dir.path(), &*bench.control.store);
    let path = enable_offline(dir, store, &*bench.clock).await.unwrap();
    assert_eq!(path, dir.join(bootstrap::TOKEN_FILE));
    assert!(is_accepted(&bench, &bench.operator_token).await);
    let log = bench.control.list_audit(&ann, AuditQuery::default(), 1, "").await.unwrap().items;
    let entry = (&log[0].entry.action, &*log[0].actor);
    assert_eq!(entry, (&AuditAction::OperatorTokenEnable, ""));
}

/// Regression test: with the digest of an empty file, everyone could use the empty token.
#[tokio::test]
async fn an_empty_token_file_is_not_enabled() {
    let bench = Bench::new(Registration::Open).await;
    let (dir, store) = (bench.dir.path(), &*bench.control.store);
    std::fs::write(dir.join(bootstrap::TOKEN_FILE), "\n").unwrap();
    let refused = enable_offline(dir, store, &*bench.clock).await.unwrap_err().to_string();
    assert!(refused.contains("holds no token"), "{refused}");
    assert!(!is_accepted(&bench, &SecretString::from("")).await);
}
