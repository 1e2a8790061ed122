//! `ctl key …`

use crate::harness::signed_in;

#[tokio::test]
async fn create_quietly_prints_the_secret_alone() {
    let (fake, person) = signed_in().await;
    let ran = person.ctl("key create ci --quiet").await;
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "sk-tg-9f2c41d0-secret\n", ""));
    assert_eq!(fake.last().token.as_deref(), Some("token"));
}

#[tokio::test]
async fn create_sends_limits_models_and_the_end() {
    let (fake, person) = signed_in().await;
    person.ctl("key create ci --rpm 5 --expires 30d --model a --model b:c,d").await.ok();
    insta::assert_snapshot!(fake.last().message);
    let limits = "--rpm 5 --tpm 0 --monthly-tokens 900 --limit-mode observe --spend-cap 2.50";
    person.ctl(&format!("key create ci {limits}")).await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(person.ctl("key create ci --limit-mode later").await.code, 2);
    person.ctl("key create ci --expires 2027-01-01T00:00:00+01:00").await.ok();
    assert!(fake.last().message.contains("seconds: 1798758000"), "{}", fake.last().message);
}

#[tokio::test]
async fn create_shows_the_secret_once_and_says_so() {
    let (_fake, person) = signed_in().await;
    let ran = person.ctl("key create ci").await;
    assert_eq!(ran.err, "keep the secret now: it is not shown again\n");
    insta::assert_snapshot!(ran.ok());
    insta::assert_snapshot!(person.ctl("key create ci -o json").await.ok());
}

#[tokio::test]
async fn list_chooses_the_account() {
    let (fake, person) = signed_in().await;
    for (line, account) in
        [("key list", ""), ("key list --account bob", "bob"), ("key list --all", "*")]
    {
        person.ctl(line).await.ok();
        assert_eq!(fake.last().message, format!("ListKeysRequest {{ account: {account:?} }}"));
    }
    assert_eq!(person.ctl("key list --all --account bob").await.code, 2);
    insta::assert_snapshot!(person.ctl("key list").await.ok());
}

#[tokio::test]
async fn revoke_shows_the_key_as_it_is_now() {
    let (fake, person) = signed_in().await;
    let printed = person.ctl("-o jsonl key revoke 9f2c41d0").await.ok();
    assert!(printed.contains(r#""revoked_at":"2026-11-20T12:01:00Z""#), "{printed}");
    assert_eq!(fake.last().message, r#"RevokeKeyRequest { id: "9f2c41d0" }"#);
}

#[tokio::test]
async fn rotate_says_how_long_the_old_key_works() {
    let (fake, person) = signed_in().await;
    for (line, seconds) in [
        ("key rotate 9f2c41d0", 86_400),
        ("key rotate 9f2c41d0 --overlap 2h", 7_200),
        ("key rotate 9f2c41d0 --overlap 0s", 0),
    ] {
        person.ctl(line).await.ok();
        let sent = format!("RotateKeyRequest {{ id: \"9f2c41d0\", overlap_seconds: {seconds} }}");
        assert_eq!(fake.last().message, sent);
    }
    let quiet = person.ctl("key rotate 9f2c41d0 --quiet").await;
    assert_eq!((&*quiet.out, &*quiet.err), ("sk-tg-33cc44dd-secret\n", ""));
    insta::assert_snapshot!(person.ctl("key rotate 9f2c41d0").await.ok());
}
