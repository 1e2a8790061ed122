//! Registration, invites and balances.

use super::super::invites::{InviteRequest, NewInvite};
use super::super::plans::NewPlan;
use super::*;
use domain::account::Role;
use domain::id::PlanName;
use domain::limit::Limits;

#[tokio::test]
async fn open_mode_registers_without_an_invite_and_grants_trial_credit() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let view =
        control.register(None, None, "ann@example.org", PASSWORD.into(), &"".into()).await.unwrap();
    assert_eq!((view.trial_credit, view.withheld), (Nanos(5_000_000_000), false));
    let view = view.account;
    assert_eq!(view.balance, Nanos(5_000_000_000));
    assert_eq!(control.store.balance(view.account.id).await.unwrap(), view.balance);
    assert_eq!((view.account.role, view.account.plan.as_str()), (Role::Member, "free"));
}

#[tokio::test]
async fn invite_mode_accepts_a_code_once_and_before_its_expiry() {
    let bench = Bench::new(Registration::Invite).await;
    let control = &bench.control;
    let register = |name: &'static str, code: SecretString| async move {
        control.register(None, None, name, PASSWORD.into(), &code).await
    };
    assert_eq!(field(register("ann", "".into()).await), "invite_code");
    let refused = register("ann", "tgi-made-up".into()).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");

    let invite = control.create_invite(&bench.operator, InviteRequest::default()).await.unwrap();
    let week = Duration::from_hours(7 * 24);
    assert_eq!(invite.invite.invite.expires_at, bench.clock.now() + week);
    register("ann", invite.code.clone()).await.unwrap();
    let again = register("bob", invite.code).await;
    assert!(matches!(again, Err(ControlError::Forbidden(_))), "{again:?}");

    let hour = Duration::from_hours(1);
    let request = InviteRequest { lifetime: hour, ..InviteRequest::default() };
    let invite = control.create_invite(&bench.operator, request).await.unwrap();
    bench.clock.advance(hour);
    let late = register("bob", invite.code).await;
    assert!(matches!(late, Err(ControlError::Forbidden(_))), "{late:?}");
}

#[tokio::test]
async fn closed_mode_lets_only_operators_create_accounts() {
    let bench = Bench::new(Registration::Closed).await;
    let control = &bench.control;
    let ann = bench.member("ann").await;
    for caller in [None, Some(&ann)] {
        let refused = control.register(caller, None, "bob", PASSWORD.into(), &"".into()).await;
        assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn names_are_unique_ignoring_case() {
    let bench = Bench::new(Registration::Open).await;
    bench.member("Änn").await;
    for name in ["Änn", "äNN", "Operator"] {
        let taken = bench.control.register(None, None, name, PASSWORD.into(), &"".into()).await;
        assert!(matches!(taken, Err(ControlError::Exists(_))), "{taken:?}");
    }
}

#[tokio::test]
async fn concurrent_registrations_cannot_share_a_name() {
    let bench = Bench::new(Registration::Open).await;
    let register = || async {
        bench.control.register(None, None, "ann", PASSWORD.into(), &"".into()).await.map(|_| ())
    };
    let (one, two) = tokio::join!(register(), register());
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    let ann = bench.control.get_account(&bench.operator, "ann").await.unwrap();
    assert_eq!(ann.balance, Nanos(5_000_000_000));
}

#[tokio::test]
async fn validates_the_length_of_names_and_passwords() {
    let bench = Bench::new(Registration::Open).await;
    let register = async |name: &str, password: &str| {
        bench.control.register(None, None, name, password.into(), &"".into()).await
    };
    assert_eq!(field(register("a b", PASSWORD).await), "name");
    assert_eq!(field(register("", PASSWORD).await), "name");
    assert_eq!(field(register("ann", "1234567").await), "password");
    assert_eq!(field(register("ann", &"x".repeat(1_025)).await), "password");
    register("ann", &"x".repeat(1_024)).await.unwrap();
    register("bob", "12345678").await.unwrap();
}

#[tokio::test]
async fn a_cancelled_caller_leaves_store_and_memory_consistent() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let before = bench.control.ledger.balance(ann.account.id);
    {
        let credit = bench.control.credit_account(&bench.operator, "ann", Nanos(9), "gift");
        let mut credit = std::pin::pin!(credit);
        // Polled once, then dropped: the write has started and continues.
        assert!(futures_util::poll!(credit.as_mut()).is_pending());
    }
    bench.control.tasks.close();
    bench.control.tasks.wait().await;
    let stored = bench.control.store.balance(ann.account.id).await.unwrap();
    assert_eq!(stored, before + Nanos(9));
    assert_eq!(stored, bench.control.ledger.balance(ann.account.id));
}

#[tokio::test]
async fn operators_credit_and_debit_with_a_reason() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let id = ann.account.id.to_string();
    let credit = async |amount: i64, reason: &str| {
        bench.control.credit_account(&bench.operator, &id, Nanos(amount), reason).await
    };
    assert_eq!(credit(2_000_000_000, "gift").await.unwrap().balance, Nanos(7_000_000_000));
    assert_eq!(credit(-500_000_000, "taken back").await.unwrap().balance, Nanos(6_500_000_000));
    let stored = bench.control.store.balance(ann.account.id).await.unwrap();
    assert_eq!(stored, Nanos(6_500_000_000));
    assert_eq!(field(credit(1, "  ").await), "reason");
    assert_eq!(field(credit(0, "nothing").await), "amount_usd");
    assert_eq!(field(credit(i64::MAX, "absurd").await), "amount_usd");
    assert_eq!(field(credit(i64::MIN, "absurd").await), "amount_usd");
}

#[tokio::test]
async fn lists_accounts_in_pages() {
    let bench = Bench::new(Registration::Open).await;
    for name in ["cid", "ann", "bob"] {
        bench.member(name).await;
    }
    let mut names = Vec::new();
    let mut token = Some(String::new());
    while let Some(from) = token {
        let page = bench.control.list_accounts(&bench.operator, 2, &from).await.unwrap();
        assert!(page.items.len() <= 2);
        names.extend(page.items.iter().map(|view| view.account.name.clone()));
        token = page.next;
    }
    assert_eq!(names, ["ann", "bob", "cid", "operator"]);
}

#[tokio::test]
async fn no_name_equals_the_id_of_an_account() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let id = ann.account.id.to_string();
    let registered = bench.control.register(None, None, &id, PASSWORD.into(), &"".into()).await;
    assert!(matches!(registered, Err(ControlError::Exists(_))), "{registered:?}");
}

#[tokio::test]
async fn trial_credit_is_withheld_beyond_the_daily_maximum() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let register = async |name: &str| {
        control.register(None, None, name, PASSWORD.into(), &"".into()).await.unwrap()
    };
    // The bench has a daily maximum of 12 dollars, and the plan grants 5 to each account.
    let day = bench.clock.now();
    for (name, credit) in [("ann", 5), ("bob", 5), ("cid", 0)] {
        let made = register(name).await;
        let expected = (Nanos(credit * 1_000_000_000), credit == 0);
        assert_eq!((made.trial_credit, made.withheld), expected, "{name}");
        assert_eq!(made.account.balance, made.trial_credit);
    }
    assert_eq!(control.store.trial_given(day).await.unwrap(), Nanos(10_000_000_000));
    bench.clock.advance(Duration::from_hours(24));
    assert!(!register("dan").await.withheld);
}

#[tokio::test]
async fn limits_registrations_per_address_except_by_operators() {
    let bench = Bench::new(Registration::Open).await;
    let address = Some("192.0.2.7".parse().unwrap());
    let register = async |caller: Option<&Caller>, name: String| {
        bench.control.register(caller, address, &name, PASSWORD.into(), &"".into()).await
    };
    for number in 0..10 {
        register(None, format!("a{number}")).await.unwrap();
    }
    match register(None, "late".into()).await {
        Err(ControlError::Limited { retry_after, .. }) => {
            assert_eq!(retry_after, Duration::from_hours(1));
        }
        other => panic!("{other:?}"),
    }
    register(Some(&bench.operator), "late".into()).await.unwrap();
    bench.clock.advance(Duration::from_hours(1));
    register(None, "later".into()).await.unwrap();
}

#[tokio::test]
async fn an_invite_gives_its_plan_and_credit_and_tells_its_user() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let plan = NewPlan {
        name: PlanName::new("team"),
        trial_credit: Nanos(3),
        limits: Limits::default(),
        max_keys: None,
        models: Vec::new(),
    };
    control.put_plan(&bench.operator, plan).await.unwrap();
    let request = InviteRequest {
        plan: Some("team".into()),
        credit: Some(Nanos(40)),
        ..InviteRequest::default()
    };
    let unknown = InviteRequest { plan: Some("nix".into()), ..InviteRequest::default() };
    let missing = control.create_invite(&bench.operator, unknown).await.unwrap_err();
    assert!(matches!(missing, ControlError::NotFound(_)), "{missing:?}");
    let free = InviteRequest { credit: Some(Nanos::ZERO), ..InviteRequest::default() };
    assert_eq!(field(control.create_invite(&bench.operator, free).await), "credit_usd");

    let NewInvite { code, invite } =
        control.create_invite(&bench.operator, request.clone()).await.unwrap();
    let revoked = control.create_invite(&bench.operator, request).await.unwrap();
    control.revoke_invite(&bench.operator, revoked.invite.invite.id.as_str()).await.unwrap();
    let refused = control.register(None, None, "bob", PASSWORD.into(), &revoked.code).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    let ann = control.register(None, None, "ann", PASSWORD.into(), &code).await.unwrap();
    assert_eq!((ann.account.account.plan.as_str(), ann.account.balance), ("team", Nanos(43)));
    let stored = control.store.balance(ann.account.account.id).await.unwrap();
    assert_eq!(stored, ann.account.balance);

    let listed = control.list_invites(&bench.operator).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].invite.id, invite.invite.id);
    let names = (listed[0].created_by.as_deref(), listed[0].used_by.as_deref());
    assert_eq!(names, (Some("operator"), Some("ann")));
    let used = control.revoke_invite(&bench.operator, invite.invite.id.as_str()).await;
    assert!(matches!(used, Err(ControlError::NotFound(_))), "{used:?}");
}
