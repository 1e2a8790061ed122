//! Suspension of accounts and assignment of plans.

use super::super::keys::{KeyScope, NewKey};
use super::super::plans::NewPlan;
use super::*;
use domain::account::{AccountStatus, Role};
use domain::id::PlanName;
use domain::limit::Limits;

fn new_key(label: &str) -> NewKey {
    NewKey { label: label.into(), ..NewKey::default() }
}

#[tokio::test]
async fn a_suspended_account_is_read_only() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let ann = bench.member("ann").await;
    let (key, _) = control.create_key(&ann, new_key("k")).await.unwrap();
    let view = control.suspend_account(&bench.operator, "ann", " spam ").await.unwrap();
    assert_eq!(view.account.status, AccountStatus::Suspended);
    assert_eq!(
        control
            .store
            .load()
            .await
            .unwrap()
            .accounts
            .iter()
            .filter(|a| a.status == AccountStatus::Suspended)
            .count(),
        1
    );

    // Sessions from before and after the suspension can read the status.
    let token = control.sign_in(None, "ann", PASSWORD.into()).await.unwrap().token;
    let again = control.authenticate(&token, None).await.unwrap();
    assert_eq!(again.account.status, AccountStatus::Suspended);
    assert_eq!(control.list_keys(&ann, KeyScope::Caller).await.unwrap().len(), 1);
    for caller in [&ann, &again] {
        let id = key.key.id.as_str();
        let refused = [
            control.create_key(caller, new_key("k")).await.map(|_| ()),
            control.revoke_key(caller, id).await.map(|_| ()),
            control.rotate_key(caller, id, Duration::ZERO).await.map(|_| ()),
            control
                .change_password(caller, None, PASSWORD.into(), "new password".into())
                .await
                .map(|_| ()),
            control.revoke_other_sessions(caller).await.map(|_| ()),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
        }
    }
    control.sign_out(&again).await.unwrap();

    let view = control.resume_account(&bench.operator, "ann").await.unwrap();
    assert_eq!(view.account.status, AccountStatus::Active);
    control.revoke_key(&ann, key.key.id.as_str()).await.unwrap();
}

#[tokio::test]
async fn suspension_requires_an_operator_a_reason_and_another_account() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let (ann, operator) = (bench.member("ann").await, &bench.operator);
    bench.member("bob").await;
    assert_eq!(field(control.suspend_account(operator, "ann", " ").await), "reason");
    let own = control.suspend_account(operator, "operator", "oops").await;
    assert!(matches!(own, Err(ControlError::InUse(_))), "{own:?}");
    let missing = control.suspend_account(operator, "nix", "spam").await;
    assert!(matches!(missing, Err(ControlError::NotFound(_))), "{missing:?}");
    for name in ["bob", "ann", "nix"] {
        for refused in [
            control.suspend_account(&ann, name, "spam").await,
            control.resume_account(&ann, name).await,
            control.set_plan(&ann, name, "free".into()).await,
        ] {
            assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
        }
    }
    // Both operations are idempotent.
    control.suspend_account(operator, "bob", "spam").await.unwrap();
    control.suspend_account(operator, "bob", "more spam").await.unwrap();
    control.resume_account(operator, "ann").await.unwrap();
}

#[tokio::test]
async fn owners_can_suspend_each_other_but_not_all_of_them() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    bench.member("second").await;
    let second = control.grant_role(&bench.operator, "second", Role::Owner).await.unwrap();
    let second =
        Caller { account: second.account, session: Some([9; 32]), ..bench.operator.clone() };
    // Either owner can suspend the other one, but a suspended owner cannot suspend the last one.
    control.suspend_account(&second, "operator", "gone").await.unwrap();
    let refused = control.suspend_account(&bench.operator, "second", "revenge").await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    control.resume_account(&second, "operator").await.unwrap();
}

#[tokio::test]
async fn a_plan_change_leaves_the_balance_unchanged() {
    let bench = Bench::new(Registration::Open).await;
    let control = &bench.control;
    let ann = bench.member("ann").await;
    let team = NewPlan {
        name: PlanName::new("team"),
        trial_credit: Nanos(9_000_000_000),
        limits: Limits { rpm: Some(7), ..Limits::default() },
        max_keys: None,
        models: Vec::new(),
    };
    control.put_plan(&bench.operator, team).await.unwrap();
    let view = control.set_plan(&bench.operator, "ann", "team".into()).await.unwrap();
    assert_eq!((view.account.plan.as_str(), view.balance), ("team", Nanos(5_000_000_000)));
    let kept = control.store.load().await.unwrap().accounts;
    assert!(kept.iter().any(|kept| kept.id == ann.account.id && kept.plan.as_str() == "team"));
    let missing = control.set_plan(&bench.operator, "ann", "nix".into()).await;
    assert!(matches!(missing, Err(ControlError::NotFound(_))), "{missing:?}");
}
