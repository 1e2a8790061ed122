//! Tests of `ctl key …`.

use crate::harness::signed_in;

#[tokio::test]
async fn quiet_create_prints_only_the_secret() {
    let (fake, user) = signed_in().await;
    let result = user.ctl("key create ci --quiet").await;
    assert_eq!((result.code, &*result.out, &*result.err), (0, "sk-tg-9f2c41d0-secret\n", ""));
    assert_eq!(fake.last().token.as_deref(), Some("token"));
}

#[tokio::test]
async fn create_sends_limits_models_and_expiry() {
    let (fake, user) = signed_in().await;
    user.ctl("key create ci --rpm 5 --expires 30d --model a --model b:c,d").await.ok();
    insta::assert_snapshot!(fake.last().message);
    user.ctl("key create ci --drain 30").await.ok();
    let drains = fake.last().message.contains("client_gone: Drain, drain_seconds: 30");
    assert!(drains, "{}", fake.last().message);
    assert_eq!(user.ctl("key create ci --drain 0").await.code, 2);
    let limits = "--rpm 5 --tpm 0 --monthly-tokens 900 --limit-mode observe --spend-cap 2.50";
    user.ctl(&format!("key create ci {limits}")).await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(user.ctl("key create ci --limit-mode later").await.code, 2);
    user.ctl("key create ci --expires 2027-01-01T00:00:00+01:00").await.ok();
    assert!(fake.last().message.contains("seconds: 1798758000"), "{}", fake.last().message);
}

#[tokio::test]
async fn create_prints_the_secret_and_warns_to_save_it() {
    let (_fake, user) = signed_in().await;
    let result = user.ctl("key create ci").await;
    assert_eq!(result.err, "save the secret now: it is not shown again\n");
    insta::assert_snapshot!(result.ok());
    insta::assert_snapshot!(user.ctl("key create ci -o json").await.ok());
}

#[tokio::test]
async fn list_sends_the_account() {
    let (fake, user) = signed_in().await;
    for (line, account) in
        [("key list", ""), ("key list --account bob", "bob"), ("key list --all", "*")]
    {
        user.ctl(line).await.ok();
        assert_eq!(fake.last().message, format!("ListKeysRequest {{ account: {account:?} }}"));
    }
    assert_eq!(user.ctl("key list --all --account bob").await.code, 2);
    insta::assert_snapshot!(user.ctl("key list").await.ok());
}

#[tokio::test]
async fn revoke_prints_the_revoked_key() {
    let (fake, user) = signed_in().await;
    let printed = user.ctl("-o jsonl key revoke 9f2c41d0").await.ok();
    assert!(printed.contains(r#""revoked_at":"2026-11-20T12:01:00Z""#), "{printed}");
    assert_eq!(fake.last().message, r#"RevokeKeyRequest { id: "9f2c41d0" }"#);
}

#[tokio::test]
async fn rotate_sends_the_overlap() {
    let (fake, user) = signed_in().await;
    for (line, seconds) in [
        ("key rotate 9f2c41d0", 86_400),
        ("key rotate 9f2c41d0 --overlap 2h", 7_200),
        ("key rotate 9f2c41d0 --overlap 0s", 0),
    ] {
        user.ctl(line).await.ok();
        let sent = format!("RotateKeyRequest {{ id: \"9f2c41d0\", overlap_seconds: {seconds} }}");
        assert_eq!(fake.last().message, sent);
    }
    let quiet = user.ctl("key rotate 9f2c41d0 --quiet").await;
    assert_eq!((&*quiet.out, &*quiet.err), ("sk-tg-33cc44dd-secret\n", ""));
    insta::assert_snapshot!(user.ctl("key rotate 9f2c41d0").await.ok());
}

/// No role may rotate the key of another account, so to ask an operator would not help.
#[tokio::test]
async fn a_refused_rotation_advises_to_revoke_the_key() {
    let (fake, user) = signed_in().await;
    fake.refuse("RotateKey", tonic::Code::PermissionDenied, "only its owner may rotate it");
    let refused = user.ctl("key rotate 9f2c41d0").await;
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("`ctl key revoke 9f2c41d0` revokes it"), "{}", refused.err);
    assert!(!refused.err.contains("operator"), "{}", refused.err);
}

#[tokio::test]
async fn set_sends_only_the_given_fields() {
    let (fake, user) = signed_in().await;
    for (flags, sent) in [
        ("--rpm 0 --tpm 9", "limits: Some(Limits { rpm: Some(0), tpm: Some(9),"),
        ("--limit-mode observe", "observe: Some(true) })"),
        ("--label laptop", r#"label: Some("laptop"), limits: None"#),
        ("--spend-cap 5", r#"spend_cap_usd: Some("5"), models: None"#),
        ("--no-spend-cap", r#"spend_cap_usd: Some("")"#),
        ("--model a,b", r#"models: Some(KeyModels { models: ["a", "b"] })"#),
        ("--model=", "models: Some(KeyModels { models: [] })"),
        ("--no-expiry", "expiry: Some(Never(true))"),
        (
            "--expires 2030-01-01T00:00:00Z",
            "expiry: Some(ExpiresAt(Timestamp { seconds: 1893456000,",
        ),
        ("--strict", "translation: Some(Strict), client_gone: None"),
        ("--lenient", "translation: Some(Lenient)"),
        ("--drain 30", "client_gone: Some(Drain), drain_seconds: 30"),
        ("--no-drain", "client_gone: Some(Cancel), drain_seconds: 0"),
        ("--trace-content on", "trace_content: Some(true)"),
        ("--trace-content off", "trace_content: Some(false)"),
    ] {
        user.ctl(&format!("key set 9f2c41d0 {flags}")).await.ok();
        let message = fake.last().message;
        assert!(message.contains(sent) && message.contains(r#"id: "9f2c41d0""#), "{message}");
    }
    for flags in ["--spend-cap 5 --no-spend-cap", "--expires 1d --no-expiry", "--strict --lenient"]
    {
        assert_eq!(user.ctl(&format!("key set 9f2c41d0 {flags}")).await.code, 2, "{flags}");
    }
}
