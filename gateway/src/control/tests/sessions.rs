//! Signing in and out.

use secrecy::ExposeSecret;

use super::*;
use crate::domain::account::{Account, AccountStatus};

#[tokio::test]
async fn an_unknown_name_reads_like_a_wrong_password() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let sign_in =
        async |name: &str, password: &str| bench.control.sign_in(name, password.into()).await;
    let unknown = sign_in("nobody", PASSWORD).await.unwrap_err();
    for (name, password) in [("ann", "wrong horse"), ("operator", PASSWORD), ("operator", "")] {
        let wrong = sign_in(name, password).await.unwrap_err();
        assert!(matches!(wrong, ControlError::Unauthenticated(_)), "{wrong:?}");
        assert_eq!(wrong.to_string(), unknown.to_string());
    }
    assert!(sign_in("ANN", PASSWORD).await.is_ok());
}

#[tokio::test]
async fn a_session_lasts_thirty_days_and_its_token_is_stored_nowhere() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let signed_in = bench.control.sign_in("ann", PASSWORD.into()).await.unwrap();
    let token = signed_in.token.expose_secret();
    assert!(token.starts_with("tgs-") && token.len() == 4 + 48, "{token}");
    assert!(!format!("{signed_in:?}").contains(&token[4..]));
    let lifetime = Duration::from_hours(30 * 24);
    assert_eq!(signed_in.expires_at, bench.clock.now() + lifetime);

    bench.clock.advance(lifetime.saturating_sub(Duration::from_secs(1)));
    assert!(bench.control.authenticate(&signed_in.token).await.is_ok());
    bench.clock.advance(Duration::from_secs(1));
    let ended = bench.control.authenticate(&signed_in.token).await;
    assert!(matches!(ended, Err(ControlError::Unauthenticated(_))), "{ended:?}");

    let found = |needle: &str| {
        std::fs::read_dir(bench.dir.path()).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        })
    };
    assert!(found("ann"));
    assert!(!found(token) && !found(PASSWORD));
}

#[tokio::test]
async fn signing_out_ends_this_session_only() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let one = bench.control.sign_in("ann", PASSWORD.into()).await.unwrap().token;
    let two = bench.control.sign_in("ann", PASSWORD.into()).await.unwrap().token;
    let caller = bench.control.authenticate(&one).await.unwrap();
    bench.control.sign_out(&caller).await.unwrap();
    assert!(bench.control.authenticate(&one).await.is_err());
    assert!(bench.control.authenticate(&two).await.is_ok());
    let refused = bench.control.sign_out(&bench.operator).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn a_suspended_account_can_neither_sign_in_nor_call() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let token = bench.control.sign_in("ann", PASSWORD.into()).await.unwrap().token;
    let suspended = Account { status: AccountStatus::Suspended, ..Account::clone(&ann.account) };
    bench.control.directory.put_account(suspended);
    let call = bench.control.authenticate(&token).await.map(|_| ());
    let sign_in = bench.control.sign_in("ann", PASSWORD.into()).await.map(|_| ());
    for refused in [call, sign_in] {
        assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    }
    let wrong = bench.control.sign_in("ann", "wrong horse".into()).await;
    assert!(matches!(wrong, Err(ControlError::Unauthenticated(_))), "{wrong:?}");
}

#[tokio::test]
async fn made_up_and_empty_tokens_are_nobodys() {
    let bench = Bench::new(Registration::Open).await;
    for token in ["", "tgo-", "tgs-0000", "sk-tg-x"] {
        let refused = bench.control.authenticate(&token.into()).await;
        assert!(matches!(refused, Err(ControlError::Unauthenticated(_))), "{token}: {refused:?}");
    }
}
