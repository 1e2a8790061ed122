//! Key rotation.

use secrecy::ExposeSecret;

use super::super::keys::{KeyScope, NewKey};
use super::*;
use domain::key::{ClientGone, Key, KeyDigest, Translation};
use domain::limit::Limits;
use domain::money::Nanos;

const HOUR: Duration = Duration::from_hours(1);

fn found(bench: &Bench, secret: &SecretString) -> Arc<Key> {
    bench.control.directory.find_key(&KeyDigest::of(secret.expose_secret())).unwrap()
}

#[tokio::test]
async fn both_keys_are_usable_until_the_overlap_ends() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann) = (&bench.control, bench.member("ann").await);
    bench.model("m").await;
    let end = bench.clock.now() + 24 * HOUR;
    let request = NewKey {
        label: "ci".into(),
        limits: Limits { rpm: Some(5), ..Limits::default() },
        spend_cap: Some(Nanos(7)),
        models: vec!["m".into()],
        translation: Translation::Strict,
        client_gone: ClientGone::Drain(Duration::from_mins(1)),
        expires_at: Some(end),
    };
    let (old, old_secret) = control.create_key(&ann, request).await.unwrap();
    bench.clock.advance(Duration::from_mins(1));
    let (new, new_secret) = control.rotate_key(&ann, old.key.id.as_str(), HOUR).await.unwrap();
    let expected = Key {
        id: new.key.id.clone(),
        digest: KeyDigest::of(new_secret.expose_secret()),
        created_at: bench.clock.now(),
        ..old.key.clone()
    };
    assert_eq!(new.key, expected, "all other fields, including the origin, are unchanged");
    assert_ne!(new_secret.expose_secret(), old_secret.expose_secret());

    let usable = |secret| found(&bench, secret).is_usable(bench.clock.now());
    bench.clock.advance(HOUR.saturating_sub(Duration::from_secs(1)));
    assert!(usable(&old_secret) && usable(&new_secret));
    bench.clock.advance(Duration::from_secs(1));
    assert!(!usable(&old_secret) && usable(&new_secret));
    let listed = control.list_keys(&ann, KeyScope::Caller).await.unwrap();
    let listed = listed.into_iter().find(|view| view.key.id == old.key.id).unwrap().key;
    assert_eq!(listed, *found(&bench, &old_secret), "memory and store agree");
    assert_eq!((listed.successor, listed.revoked_at), (Some(new.key.id), None));
}

#[tokio::test]
async fn without_overlap_the_old_key_is_revoked_at_once() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann) = (&bench.control, bench.member("ann").await);
    let request = NewKey { label: "ci".into(), ..NewKey::default() };
    let (old, old_secret) = control.create_key(&ann, request).await.unwrap();
    let (new, new_secret) =
        control.rotate_key(&ann, old.key.id.as_str(), Duration::ZERO).await.unwrap();
    assert_eq!(found(&bench, &old_secret).revoked_at, Some(bench.clock.now()));
    assert!(found(&bench, &new_secret).is_usable(bench.clock.now()));
    assert_eq!(new.key.expires_at, None);
}

#[tokio::test]
async fn an_overlap_is_bounded_and_does_not_prolong_a_key() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann) = (&bench.control, bench.member("ann").await);
    let end = bench.clock.now() + HOUR;
    let request = NewKey { label: "ci".into(), expires_at: Some(end), ..NewKey::default() };
    let (old, secret) = control.create_key(&ann, request).await.unwrap();
    let id = old.key.id.as_str();
    let year = Duration::from_hours(367 * 24);
    assert_eq!(field(control.rotate_key(&ann, id, year).await), "overlap_seconds");
    control.rotate_key(&ann, id, 48 * HOUR).await.unwrap();
    assert_eq!(found(&bench, &secret).expires_at, Some(end));
}

#[tokio::test]
async fn only_the_owner_rotates_a_usable_key_and_only_once() {
    let bench = Bench::new(Registration::Open).await;
    let (control, ann, bob) =
        (&bench.control, bench.member("ann").await, bench.member("bob").await);
    let new_key = |label: &str| NewKey { label: label.into(), ..NewKey::default() };
    let (key, _) = control.create_key(&ann, new_key("a")).await.unwrap();
    let id = key.key.id.as_str();
    let others = control.rotate_key(&bob, id, HOUR).await;
    assert!(matches!(others, Err(ControlError::NotFound(_))), "{others:?}");
    let operators = control.rotate_key(&bench.operator, id, HOUR).await;
    assert!(matches!(operators, Err(ControlError::Forbidden(_))), "{operators:?}");
    let (one, two) =
        tokio::join!(control.rotate_key(&ann, id, HOUR), control.rotate_key(&ann, id, HOUR));
    assert!(one.is_ok() != two.is_ok(), "one successor");
    let again = control.rotate_key(&ann, id, HOUR).await;
    assert!(matches!(again, Err(ControlError::InUse(_))), "{again:?}");

    let (key, _) = control.create_key(&ann, new_key("b")).await.unwrap();
    control.revoke_key(&ann, key.key.id.as_str()).await.unwrap();
    let revoked = control.rotate_key(&ann, key.key.id.as_str(), HOUR).await;
    assert!(matches!(revoked, Err(ControlError::InUse(_))), "{revoked:?}");
}
