//! API keys.

use secrecy::ExposeSecret;

use super::super::keys::{KeyScope, NewKey};
use super::super::plans::NewPlan;
use super::*;
use domain::id::PlanName;
use domain::key::KeyDigest;
use domain::limit::Limits;

fn new_key(label: &str) -> NewKey {
    NewKey { label: label.into(), ..NewKey::default() }
}

#[tokio::test]
async fn a_new_key_is_usable_at_once_and_a_revoked_one_never() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let (view, secret) = bench.control.create_key(&ann, new_key(" laptop ")).await.unwrap();
    assert_eq!((view.key.label.as_str(), view.account.as_str()), ("laptop", "ann"));
    let digest = KeyDigest::of(secret.expose_secret());
    let usable = |at| bench.control.directory.find_key(&digest).unwrap().is_usable(at);
    assert!(usable(bench.clock.now()));

    let revoked = bench.control.revoke_key(&ann, view.key.id.as_str()).await.unwrap();
    assert!(!usable(bench.clock.now()));
    bench.clock.advance(Duration::from_mins(1));
    let again = bench.control.revoke_key(&ann, view.key.id.as_str()).await.unwrap();
    assert!(again.key.revoked_at.is_some());
    assert_eq!(again.key.revoked_at, revoked.key.revoked_at);
    let listed = bench.control.list_keys(&ann, KeyScope::Caller).await.unwrap();
    assert_eq!(listed[0].key.revoked_at, revoked.key.revoked_at);
}

#[tokio::test]
async fn validates_new_keys_and_resolves_models_to_ids() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.model("m").await;
    let change =
        ModelChange { aliases: Some(vec![ModelId::new("alias")]), ..ModelChange::default() };
    bench.control.update_model(&bench.operator, "m".into(), change).await.unwrap();

    let models = vec!["alias".to_owned(), "m".to_owned()];
    let both = NewKey { models, ..new_key("both") };
    let (view, _) = bench.control.create_key(&ann, both).await.unwrap();
    assert_eq!(view.key.models, [ModelId::new("m")]);

    let zero = Limits { rpm: Some(0), ..Limits::default() };
    let now = bench.clock.now();
    for (request, expected) in [
        (new_key(" "), "label"),
        (new_key(&"x".repeat(65)), "label"),
        (new_key("a\u{1b}b"), "label"),
        (NewKey { limits: zero, ..new_key("k") }, "limits.rpm"),
        (NewKey { spend_cap: Some(Nanos::ZERO), ..new_key("k") }, "spend_cap_usd"),
        (NewKey { spend_cap: Some(Nanos(i64::MAX)), ..new_key("k") }, "spend_cap_usd"),
        (NewKey { models: vec!["nix".into()], ..new_key("k") }, "models"),
        (NewKey { expires_at: Some(now), ..new_key("k") }, "expires_at"),
    ] {
        assert_eq!(field(bench.control.create_key(&ann, request).await), expected);
    }
}

#[tokio::test]
async fn members_access_their_own_keys_and_operators_all_keys() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    let (of_ann, _) = bench.control.create_key(&ann, new_key("a")).await.unwrap();
    bench.control.create_key(&bob, new_key("b")).await.unwrap();
    let labels = async |caller: &Caller, of| {
        let keys = bench.control.list_keys(caller, of).await.unwrap();
        let mut labels: Vec<_> = keys.into_iter().map(|view| view.key.label).collect();
        labels.sort();
        labels.concat()
    };
    assert_eq!(labels(&ann, KeyScope::Caller).await, "a");
    assert_eq!(labels(&ann, KeyScope::Account("ann")).await, "a");
    assert_eq!(labels(&bench.operator, KeyScope::All).await, "ab");
    assert_eq!(labels(&bench.operator, KeyScope::Account("bob")).await, "b");
    assert_eq!(labels(&bench.operator, KeyScope::Caller).await, "");

    let id = of_ann.key.id.as_str();
    let others = bench.control.revoke_key(&bob, id).await.unwrap_err().to_string();
    let missing = bench.control.revoke_key(&bob, "nix").await.unwrap_err().to_string();
    assert_eq!(others.replace(id, "nix"), missing);
    let others = bench.control.list_keys(&bob, KeyScope::Account("ann")).await.unwrap_err();
    let missing = bench.control.list_keys(&bob, KeyScope::Account("nix")).await.unwrap_err();
    assert_eq!(others.to_string().replace("ann", "nix"), missing.to_string());
    bench.control.revoke_key(&bench.operator, id).await.unwrap();
}

/// Sets the number of keys that the default plan allows.
async fn allow_keys(bench: &Bench, max: u32) {
    let plan = NewPlan {
        name: PlanName::new("free"),
        trial_credit: Nanos::ZERO,
        limits: Limits::default(),
        max_keys: Some(max),
        models: Vec::new(),
    };
    bench.control.put_plan(&bench.operator, plan).await.unwrap();
}

#[tokio::test]
async fn an_account_makes_no_more_keys_than_its_plan_allows() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    allow_keys(&bench, 2).await;
    let create = async |caller: &Caller, label: &str| {
        bench.control.create_key(caller, new_key(label)).await.map(|(view, _)| view.key.id)
    };
    let first = create(&ann, "1").await.unwrap();
    let hour = Duration::from_hours(1);
    let expires_at = Some(bench.clock.now() + hour);
    let short = NewKey { expires_at, ..new_key("2") };
    bench.control.create_key(&ann, short).await.unwrap();
    let refused = create(&ann, "3").await.unwrap_err();
    assert!(matches!(&refused, ControlError::InUse(text) if text.contains("ctl key revoke")));
    create(&bob, "other accounts are not affected").await.unwrap();

    // A revoked and an expired key make room.
    bench.control.revoke_key(&ann, first.as_str()).await.unwrap();
    create(&ann, "3").await.unwrap();
    create(&ann, "4").await.unwrap_err();
    bench.clock.advance(hour);
    let fourth = create(&ann, "4").await.unwrap();

    // With a lower bound, the account keeps what it has.
    allow_keys(&bench, 1).await;
    create(&ann, "5").await.unwrap_err();
    let usable = bench.control.store.count_usable_keys(ann.account.id, bench.clock.now()).await;
    assert_eq!(usable.unwrap(), 2);

    // All keys can be rotated, but not endlessly with overlaps.
    allow_keys(&bench, 2).await;
    let rotate = async |id: &KeyId, overlap| {
        bench.control.rotate_key(&ann, id.as_str(), overlap).await.map(|(view, _)| view.key.id)
    };
    let fifth = rotate(&fourth, hour).await.unwrap();
    let sixth = rotate(&fifth, hour).await.unwrap();
    let refused = rotate(&sixth, hour).await.unwrap_err();
    assert!(matches!(&refused, ControlError::InUse(text) if text.contains("--overlap 0s")));
    rotate(&sixth, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_call_from_before_a_rotation_of_the_seal_key_is_refused_with_what_to_do() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let create = async || {
        let call =
            bench.control.with_idempotency_key(ann.clone(), "CreateKey", "once", b"a request");
        let key = NewKey { label: "ci".to_owned(), ..NewKey::default() };
        bench.control.create_key(&call.unwrap(), key).await
    };
    create().await.unwrap();
    assert!(matches!(create().await, Err(ControlError::Exists(_))), "recognized");
    bench.control.rotate_seal_key(&bench.operator).await.unwrap();
    let refused = create().await.unwrap_err().to_string();
    assert!(
        refused.contains("`ctl seal rotate`") && refused.contains("`ctl audit list`"),
        "{refused}"
    );
    assert_eq!(bench.control.list_keys(&ann, KeyScope::Caller).await.unwrap().len(), 1);
}
