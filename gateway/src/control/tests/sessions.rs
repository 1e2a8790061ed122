//! Sessions, password changes and reports of failed sign-ins.

use secrecy::ExposeSecret;

use tokio_util::sync::CancellationToken;

use super::super::access::Permission;
use super::super::audit::AuditQuery;
use super::super::sign_in::MAX_SESSIONS;
use super::*;
use domain::account::{Role, Session};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::SessionId;

#[tokio::test]
async fn an_unknown_name_gives_the_same_error_as_a_wrong_password() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let sign_in =
        async |name: &str, password: &str| bench.control.sign_in(None, name, password.into()).await;
    let unknown = sign_in("nobody", PASSWORD).await.unwrap_err();
    for (name, password) in [("ann", "wrong horse"), ("operator", PASSWORD), ("operator", "")] {
        let wrong = sign_in(name, password).await.unwrap_err();
        assert!(matches!(wrong, ControlError::Unauthenticated(_)), "{wrong:?}");
        assert_eq!(wrong.to_string(), unknown.to_string());
    }
    assert!(sign_in("ANN", PASSWORD).await.is_ok());
}

#[tokio::test]
async fn a_sign_in_beyond_the_bound_ends_the_oldest_session() {
    let bench = Bench::new(Registration::Open).await;
    let oldest = bench.member("ann").await;
    let session = |number: u8| Session {
        id: SessionId::new(format!("s{number}")),
        digest: [number; 32],
        account: oldest.account.id,
        created_at: bench.clock.now() + Duration::from_secs(1),
        expires_at: bench.clock.now() + Duration::from_hours(1),
    };
    // The others come from the store, because each sign-in hashes a password.
    let audit = AuditEntry {
        at: bench.clock.now(),
        actor: None,
        address: None,
        action: AuditAction::SessionCreate,
        object: String::new(),
        account: None,
        details: String::new(),
        call: None,
    };
    let hash = bench.control.store.find_password_hash("ann").await.unwrap().unwrap().1;
    for number in 1..MAX_SESSIONS {
        let session = session(u8::try_from(number).unwrap());
        bench.control.store.add_session(&session, &hash, MAX_SESSIONS, &audit).await.unwrap();
    }
    let listed = async || bench.control.list_sessions(&oldest).await.unwrap();
    assert_eq!(listed().await.len(), MAX_SESSIONS as usize);
    assert!(listed().await.iter().any(|view| view.current));
    bench.clock.advance(Duration::from_secs(2));
    let newest = bench.control.sign_in(None, "ann", PASSWORD.into()).await.unwrap();
    assert_eq!(listed().await.len(), MAX_SESSIONS as usize);
    assert!(!listed().await.iter().any(|view| view.current), "the oldest was ended");
    assert!(bench.control.authenticate(&newest.token, None).await.is_ok());
}

#[tokio::test]
async fn a_session_expires_after_thirty_days_and_its_token_is_not_stored() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let signed_in = bench.control.sign_in(None, "ann", PASSWORD.into()).await.unwrap();
    let token = signed_in.token.expose_secret();
    assert!(token.starts_with("tgs-") && token.len() == 4 + 48, "{token}");
    assert!(!format!("{signed_in:?}").contains(&token[4..]));
    let lifetime = Duration::from_hours(30 * 24);
    assert_eq!(signed_in.expires_at, bench.clock.now() + lifetime);

    bench.clock.advance(lifetime.saturating_sub(Duration::from_secs(1)));
    assert!(bench.control.authenticate(&signed_in.token, None).await.is_ok());
    bench.clock.advance(Duration::from_secs(1));
    let ended = bench.control.authenticate(&signed_in.token, None).await;
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
async fn sign_out_ends_only_the_current_session() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let one = bench.control.sign_in(None, "ann", PASSWORD.into()).await.unwrap().token;
    let two = bench.control.sign_in(None, "ann", PASSWORD.into()).await.unwrap().token;
    let caller = bench.control.authenticate(&one, None).await.unwrap();
    bench.control.sign_out(&caller).await.unwrap();
    bench.control.sign_out(&caller).await.unwrap();
    assert!(bench.control.authenticate(&one, None).await.is_err());
    assert!(bench.control.authenticate(&two, None).await.is_ok());
    let refused = bench.control.sign_out(&bench.operator).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn lists_and_revokes_single_sessions() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann) = (&bench.control, bench.member("ann").await);
    let bob = bench.member("bob").await;
    bench.clock.advance(Duration::from_mins(1));
    let second = control.sign_in(None, "ann", PASSWORD.into()).await.unwrap();
    let listed = control.list_sessions(&ann).await.unwrap();
    let current: Vec<_> = listed.iter().map(|view| view.current).collect();
    assert_eq!(current, [false, true], "newest first");
    let ids: Vec<_> = listed.iter().map(|view| view.session.id.clone()).collect();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.as_str().len() == 12), "{ids:?}");
    assert!(!second.token.expose_secret().contains(ids[0].as_str()));

    let others = control.revoke_session(&bob, ids[0].as_str()).await;
    assert!(matches!(others, Err(ControlError::NotFound(_))), "{others:?}");
    control.revoke_session(&ann, ids[0].as_str()).await.unwrap();
    assert!(control.authenticate(&second.token, None).await.is_err());
    let again = control.revoke_session(&ann, ids[0].as_str()).await;
    assert!(matches!(again, Err(ControlError::NotFound(_))), "{again:?}");
    assert_eq!(control.list_sessions(&ann).await.unwrap().len(), 1);
    bench.clock.advance(Duration::from_hours(30 * 24));
    assert_eq!(control.list_sessions(&ann).await.unwrap().len(), 0, "it has expired");
}

#[tokio::test]
async fn revoking_other_sessions_keeps_the_current_one() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann) = (&bench.control, bench.member("ann").await);
    let bob = bench.member("bob").await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(control.sign_in(None, "ann", PASSWORD.into()).await.unwrap().token);
    }
    assert_eq!(control.revoke_other_sessions(&ann).await.unwrap(), 3);
    assert_eq!(control.revoke_other_sessions(&ann).await.unwrap(), 0);
    for token in &tokens {
        assert!(control.authenticate(token, None).await.is_err());
    }
    assert_eq!(control.list_sessions(&ann).await.unwrap().len(), 1);
    assert_eq!(control.list_sessions(&bob).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_password_change_ends_other_sessions_and_invalidates_the_old_password() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann) = (&bench.control, bench.member("ann").await);
    let other = control.sign_in(None, "ann", PASSWORD.into()).await.unwrap().token;
    let change = async |old: &str, new: &str| {
        control.change_password(&ann, None, old.into(), new.into()).await
    };
    assert_eq!(field(change(PASSWORD, "short").await), "new_password");
    let wrong = change("wrong horse", "new horse").await;
    assert!(matches!(wrong, Err(ControlError::Forbidden(_))), "{wrong:?}");
    assert!(control.authenticate(&other, None).await.is_ok());

    assert_eq!(change(PASSWORD, "new horse").await.unwrap(), 1);
    assert!(control.authenticate(&other, None).await.is_err());
    assert_eq!(control.list_sessions(&ann).await.unwrap().len(), 1, "the current one");
    assert!(control.sign_in(None, "ann", PASSWORD.into()).await.is_err());
    assert!(control.sign_in(None, "ann", "new horse".into()).await.is_ok());
    let refused =
        control.change_password(&bench.operator, None, "".into(), "new horse".into()).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn a_concurrent_password_change_invalidates_sign_ins_with_the_old_password() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann) = (&bench.control, bench.member("ann").await);
    let change = control.change_password(&ann, None, PASSWORD.into(), "new horse".into());
    let sign_ins = futures_util::future::join_all(
        (0..8).map(|_| control.sign_in(None, "ann", PASSWORD.into())),
    );
    let (changed, signed_in) = tokio::join!(change, sign_ins);
    changed.unwrap();
    for signed_in in signed_in.into_iter().flatten() {
        assert!(
            control.authenticate(&signed_in.token, None).await.is_err(),
            "opened before the change"
        );
    }
}

#[tokio::test]
async fn refuses_unknown_and_empty_tokens() {
    let bench = Bench::new(Registration::Open).await;
    for token in ["", "tgo-", "tgs-0000", "sk-tg-x"] {
        let refused = bench.control.authenticate(&token.into(), None).await;
        assert!(matches!(refused, Err(ControlError::Unauthenticated(_))), "{token}: {refused:?}");
    }
}

/// Returns accounts and details of failed sign-ins in the audit log, and details of refused tokens.
async fn refusals(bench: &Bench) -> (Vec<(String, String)>, Vec<String>) {
    let stop = CancellationToken::new();
    stop.cancel();
    // Reports that are due at once are written by tasks.
    bench.control.tasks.close();
    bench.control.tasks.wait().await;
    bench.control.tasks.reopen();
    bench.control.report_refused_until(stop).await;
    let page = bench.control.list_audit(&bench.operator, AuditQuery::default(), 1_000, "").await;
    let (mut accounts, mut tokens) = (Vec::new(), Vec::new());
    for item in page.unwrap().items {
        match item.entry.action {
            AuditAction::SessionRefuse => accounts.push((item.entry.object, item.entry.details)),
            AuditAction::TokenRefuse => tokens.push(item.entry.details),
            _ => {}
        }
    }
    (accounts, tokens)
}

fn address(number: u32) -> std::net::IpAddr {
    std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

#[tokio::test]
async fn failures_from_many_sources_do_not_displace_reports_about_accounts() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    for number in 0..1_100 {
        bench.control.note_refused_token(Some(address(number)));
    }
    for number in 0..1_100 {
        let refused = bench.control.sign_in(Some(address(number)), "nobody", "".into()).await;
        assert!(refused.is_err());
    }
    bench.control.sign_in(Some(address(5_000)), "ann", "wrong horse".into()).await.unwrap_err();
    let (accounts, tokens) = refusals(&bench).await;
    assert_eq!(accounts, [("ann".to_owned(), "once, from 10.0.19.136".to_owned())]);
    let [many, once] = &tokens[..] else { panic!("{tokens:?}") };
    assert_eq!(once, "once, from 10.0.0.0");
    assert!(many.starts_with("1099 times, from 10.0.0."), "{many}");
}

#[tokio::test]
async fn a_wrong_old_password_counts_as_a_failed_sign_in() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    for _ in 0..6 {
        let change = bench.control.change_password(
            &ann,
            Some(address(7)),
            "wrong horse".into(),
            "new horse".into(),
        );
        change.await.unwrap_err();
    }
    let entry = |details: &str| ("ann".to_owned(), details.to_owned());
    let entries = [entry("5 times, from 10.0.0.7"), entry("once, from 10.0.0.7")];
    assert_eq!(refusals(&bench).await.0, entries);
}

#[tokio::test]
async fn a_cancelled_sign_in_counts_as_failed() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("ann").await;
    let mut sign_in =
        Box::pin(bench.control.sign_in(Some(address(7)), "ann", "wrong horse".into()));
    assert!(futures_util::poll!(sign_in.as_mut()).is_pending());
    drop(sign_in);
    let entry = ("ann".to_owned(), "once, from 10.0.0.7".to_owned());
    assert_eq!(refusals(&bench).await.0, [entry]);
}

/// Regression test: a stream continued after its session had been revoked.
#[tokio::test]
async fn a_stream_ends_with_its_session_or_a_suspension() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, control) = (bench.member("ann").await, &bench.control);
    let sign_in = async || {
        let token = control.sign_in(None, "ann", PASSWORD.into()).await.unwrap().token;
        control.authenticate(&token, None).await.unwrap()
    };
    let first = sign_in().await;
    control.refuse_if_ended(&first).await.unwrap();
    control.revoke_other_sessions(&ann).await.unwrap();
    let ended = control.refuse_if_ended(&first).await;
    assert!(matches!(ended, Err(ControlError::Unauthenticated(_))), "{ended:?}");

    control.grant_role(&bench.operator, "ann", Role::Support).await.unwrap();
    let support = sign_in().await;
    support.require(Permission::ReadAll).unwrap();
    control.suspend_account(&bench.operator, "ann", "left").await.unwrap();
    let ended = control.refuse_if_ended(&support).await;
    assert!(matches!(ended, Err(ControlError::Forbidden(_))), "{ended:?}");
    // Its own objects remain visible.
    let suspended = sign_in().await;
    suspended.require(Permission::ReadAll).unwrap_err();
    control.refuse_if_ended(&suspended).await.unwrap();

    control.refuse_if_ended(&bench.operator).await.unwrap();
    control.rotate_operator_token(&bench.operator).await.unwrap();
    control.refuse_if_ended(&bench.operator).await.unwrap_err();
}
