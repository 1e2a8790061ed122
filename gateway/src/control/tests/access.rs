//! Authorization: operator methods and the visibility of other accounts.

use super::super::invites::InviteRequest;
use super::super::keys::KeyScope;
use super::super::plans::NewPlan;
use super::*;
use domain::id::PlanName;
use domain::limit::Limits;

#[tokio::test]
async fn members_cannot_call_operator_methods() {
    let bench = Bench::new(Registration::Open).await;
    bench.model("m").await;
    let ann = bench.member("ann").await;
    let control = &bench.control;
    let plan = NewPlan {
        name: PlanName::new("free"),
        trial_credit: Nanos(1),
        limits: Limits::default(),
        max_keys: None,
        models: Vec::new(),
    };
    let (name, id) = (UpstreamName::new("u"), ModelId::new("n"));
    let (upstream, model) = (UpstreamChange::default, ModelChange::default);
    let refusals = [
        control.list_accounts(&ann, 10, "").await.err(),
        control.credit_account(&ann, "ann", Nanos(1), "me").await.err(),
        control.create_invite(&ann, InviteRequest::default()).await.err(),
        control.list_keys(&ann, KeyScope::All).await.err(),
        control.put_plan(&ann, plan).await.err(),
        control.add_model(&ann, id, model()).await.err(),
        control.update_model(&ann, "m".into(), model()).await.err(),
        control.remove_model(&ann, "m".into()).await.err(),
        control.list_upstreams(&ann).err(),
        control.add_upstream(&ann, name, upstream()).await.err(),
        control.update_upstream(&ann, "sim".into(), upstream()).await.err(),
        control.remove_upstream(&ann, "sim".into()).await.err(),
    ];
    for (index, refusal) in refusals.into_iter().enumerate() {
        assert!(matches!(refusal, Some(ControlError::Forbidden(_))), "{index}: {refusal:?}");
    }
    let view = control.get_account(&ann, "ann").await.unwrap();
    assert_eq!(view.balance, Nanos(5_000_000_000));
}

#[tokio::test]
async fn the_error_for_another_account_equals_the_error_for_a_missing_one() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    let missing = bench.control.get_account(&ann, "nix").await.unwrap_err().to_string();
    for text in ["bob".to_owned(), bob.account.id.to_string(), "operator".to_owned()] {
        let hidden = bench.control.get_account(&ann, &text).await.unwrap_err().to_string();
        assert_eq!(hidden.replace(&text, "nix"), missing);
        assert!(bench.control.get_account(&bench.operator, &text).await.is_ok());
    }
    for own in ["ann".to_owned(), ann.account.id.to_string()] {
        assert!(bench.control.get_account(&ann, &own).await.is_ok());
    }
}
