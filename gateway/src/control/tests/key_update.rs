//! Changes of existing keys.

use super::super::audit::AuditQuery;
use super::super::key_update::{FieldChange, KeyChange};
use super::super::keys::{KeyView, NewKey};
use super::*;
use domain::account::Role;
use domain::audit::AuditAction;
use domain::key::{Key, Translation};
use domain::limit::Limits;

async fn key(bench: &Bench, owner: &Caller) -> KeyView {
    let limits = Limits { rpm: Some(60), ..Limits::default() };
    let new = NewKey { label: "ci".into(), limits, ..NewKey::default() };
    bench.control.create_key(owner, new).await.unwrap().0
}

async fn update(
    bench: &Bench,
    caller: &Caller,
    key: &KeyView,
    change: KeyChange,
) -> Result<KeyView, ControlError> {
    bench.control.update_key(caller, key.key.id.as_str(), change).await
}

fn relabelled() -> KeyChange {
    KeyChange { label: Some("other".to_owned()), ..KeyChange::default() }
}

#[tokio::test]
async fn given_fields_change_and_the_audit_log_has_old_and_new_values() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.model("m").await;
    let created = key(&bench, &ann).await;
    let end = bench.clock.now() + Duration::from_hours(1);
    let change = KeyChange {
        limits: Limits { rpm: Some(0), tpm: Some(900), ..Limits::default() },
        spend_cap: FieldChange::Set(Nanos(2_000_000_000)),
        models: Some(vec!["m".to_owned()]),
        translation: Some(Translation::Strict),
        trace_content: Some(true),
        expires_at: FieldChange::Set(end),
        ..relabelled()
    };
    let changed = update(&bench, &ann, &created, change).await.unwrap().key;
    let expected = Key {
        label: "other".into(),
        limits: Limits { tpm: Some(900), ..Limits::default() },
        spend_cap: Some(Nanos(2_000_000_000)),
        models: vec![ModelId::new("m")],
        translation: Translation::Strict,
        trace_content: true,
        expires_at: Some(end),
        ..created.key.clone()
    };
    assert_eq!(changed, expected);
    assert_eq!(*bench.control.directory.find_key(&changed.digest).unwrap(), expected);
    assert_eq!(bench.control.store.find_key(&changed.id).await.unwrap().unwrap().0, expected);
    let log = bench.control.list_audit(&ann, AuditQuery::default(), 9, "").await.unwrap().items;
    assert_eq!(log[0].entry.action, AuditAction::KeyUpdate);
    for part in [
        "rpm: 60 -> none",
        "tpm: none -> 900",
        "spend_cap_usd: none -> 2",
        "trace_content: none -> true",
    ] {
        assert!(log[0].entry.details.contains(part), "{}", log[0].entry.details);
    }

    let back = KeyChange {
        spend_cap: FieldChange::Remove,
        models: Some(Vec::new()),
        expires_at: FieldChange::Remove,
        ..KeyChange::default()
    };
    let changed = update(&bench, &ann, &created, back.clone()).await.unwrap().key;
    assert_eq!((changed.spend_cap, changed.expires_at, changed.models.len()), (None, None, 0));
    update(&bench, &ann, &created, back).await.unwrap();
    let log = bench.control.list_audit(&ann, AuditQuery::default(), 99, "").await.unwrap().items;
    let count = log.iter().filter(|it| it.entry.action == AuditAction::KeyUpdate).count();
    assert_eq!(count, 2, "a change of nothing is no change");
}

#[tokio::test]
async fn invalid_fields_are_refused_and_change_nothing() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let created = key(&bench, &ann).await;
    let huge = Limits { rpm: Some(u64::MAX), ..Limits::default() };
    let now = bench.clock.now();
    for (change, expected) in [
        (KeyChange { label: Some(" ".into()), ..KeyChange::default() }, "label"),
        (KeyChange { limits: huge, ..relabelled() }, "limits.rpm"),
        (KeyChange { spend_cap: FieldChange::Set(Nanos::ZERO), ..relabelled() }, "spend_cap_usd"),
        (KeyChange { models: Some(vec!["nix".into()]), ..relabelled() }, "models"),
        (KeyChange { expires_at: FieldChange::Set(now), ..relabelled() }, "expires_at"),
    ] {
        assert_eq!(field(update(&bench, &ann, &created, change).await), expected);
    }
    assert_eq!(*bench.control.directory.find_key(&created.key.digest).unwrap(), created.key);
}

#[tokio::test]
async fn a_key_is_changed_by_its_account_and_by_operators_with_no_smaller_role() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    let created = key(&bench, &ann).await;
    let hidden = update(&bench, &bob, &created, relabelled()).await;
    assert!(matches!(hidden, Err(ControlError::NotFound(_))), "{hidden:?}");
    let as_role = async |role| {
        bench.control.grant_role(&bench.operator, "bob", role).await.unwrap();
        let token = bench.control.sign_in(None, "bob", PASSWORD.into()).await.unwrap().token;
        bench.control.authenticate(&token, None).await.unwrap()
    };
    let support = as_role(Role::Support).await;
    let refused = update(&bench, &support, &created, relabelled()).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
    let operator = as_role(Role::Operator).await;
    assert_eq!(update(&bench, &operator, &created, relabelled()).await.unwrap().account, "ann");
    let of_owner = key(&bench, &bench.operator).await;
    let refused = update(&bench, &operator, &of_owner, relabelled()).await;
    assert!(matches!(refused, Err(ControlError::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn keys_of_one_origin_share_their_limits_and_ended_ones_do_not_change() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let old = key(&bench, &ann).await;
    let hour = Duration::from_hours(1);
    let (new, _) = bench.control.rotate_key(&ann, old.key.id.as_str(), hour).await.unwrap();
    let refused = update(&bench, &ann, &old, relabelled()).await.unwrap_err();
    assert!(matches!(&refused, ControlError::InUse(text) if text.contains(new.key.id.as_str())));
    let limits = Limits { rpm: Some(7), ..Limits::default() };
    let spend_cap = FieldChange::Set(Nanos(9));
    let change = KeyChange { limits, spend_cap, ..relabelled() };
    update(&bench, &ann, &new, change).await.unwrap();
    let old = bench.control.directory.find_key(&old.key.digest).unwrap();
    assert_eq!((old.limits.rpm, old.spend_cap), (Some(7), Some(Nanos(9))));
    assert_eq!(old.label, "ci", "only what is counted together");

    bench.control.revoke_key(&ann, new.key.id.as_str()).await.unwrap();
    let refused = update(&bench, &ann, &new, relabelled()).await;
    assert!(matches!(refused, Err(ControlError::InUse(_))), "{refused:?}");
}

#[tokio::test]
async fn labels_are_trimmed_as_in_new_keys() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    let created = key(&bench, &ann).await;
    let padded = format!("\n ci {}", " ".repeat(1_000));
    let change = KeyChange { label: Some(padded), ..KeyChange::default() };
    assert_eq!(update(&bench, &ann, &created, change).await.unwrap().key.label, "ci");
}
