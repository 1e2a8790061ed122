//! Tests of `ctl register`, `ctl whoami` and `ctl account …`.

use crate::harness::{signed_in, signed_out};

#[tokio::test]
async fn register_reads_one_line_and_strips_only_the_line_ending() {
    let (fake, user) = signed_out().await;
    for (stdin, password) in
        [("pass word \n", "pass word "), ("pass\r\nmore\n", "pass"), ("pass", "pass")]
    {
        let result = user.ctl_with("register alice --password-stdin", stdin).await;
        assert_eq!(result.code, 0, "{result:?}");
        let sent = fake.last().message;
        assert!(sent.contains(&format!("password: {password:?},")), "{sent}");
    }
    user.ctl_with("register alice --password-stdin --invite inv-1", "pass").await.ok();
    assert!(fake.last().message.contains(r#"invite_code: "inv-1""#));
}

#[tokio::test]
async fn register_reports_withheld_trial_credit() {
    let (_fake, user) = signed_out().await;
    for (name, is_withheld) in [("alice", false), ("late", true)] {
        let line = format!("register {name} --password-stdin");
        let result = user.ctl_with(&line, "password").await;
        let is_reported = result.err.contains("trial credit is used up");
        assert_eq!((result.code, is_reported), (0, is_withheld), "{result:?}");
    }
}

#[tokio::test]
async fn register_retries_without_an_expired_session() {
    let (fake, mut user) = signed_out().await;
    user.environment.token = Some("stale".into());
    user.ctl_with("register alice --password-stdin", "password").await.ok();
    let tokens: Vec<_> = fake.calls().into_iter().map(|call| call.token).collect();
    assert_eq!(tokens, [Some("stale".to_owned()), None]);
}

#[tokio::test]
async fn password_prompts_require_a_terminal() {
    let (fake, user) = signed_out().await;
    for line in ["register alice", "login alice"] {
        let result = user.ctl(line).await;
        assert_eq!(result.code, 2, "{line}");
        assert!(result.err.contains("--password-stdin"), "{}", result.err);
    }
    assert_eq!(user.ctl("login alice --password-stdin").await.code, 2);
    assert_eq!(fake.calls().len(), 0);
}

#[tokio::test]
async fn login_with_a_code_sets_the_password_before_it_signs_in() {
    let (fake, user) = signed_out().await;
    let line = "login bob --password-stdin --reset-code";
    let refused = user.ctl_with(&format!("{line} tgr-2"), "a new one\n").await;
    assert_eq!((refused.code, fake.last().method), (3, "ResetPassword"), "{refused:?}");
    user.ctl_with(&format!("{line} tgr-1"), "a new one\n").await.ok();
    let methods: Vec<_> = fake.calls().iter().map(|call| call.method).collect();
    assert_eq!(methods, ["ResetPassword", "ResetPassword", "SignIn"]);
    let sent = r#"ResetPasswordRequest { name: "bob", code: "tgr-1", new_password: "a new one" }"#;
    assert_eq!(fake.calls()[1].message, sent);
}

#[tokio::test]
async fn whoami_and_account_show_print_the_account() {
    let (fake, user) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = user.ctl(&format!("-o {format} whoami")).await.ok();
        assert_eq!(printed, user.ctl(&format!("account show -o {format}")).await.ok());
        insta::assert_snapshot!(format!("whoami_{format}"), printed);
    }
    user.ctl("account show bob").await.ok();
    assert_eq!(fake.last().message, r#"GetAccountRequest { account: "bob" }"#);
}

#[tokio::test]
async fn account_list_fetches_all_pages() {
    let (fake, user) = signed_in().await;
    insta::assert_snapshot!(user.ctl("account list").await.ok());
    assert_eq!(fake.calls().len(), 2);
}

#[tokio::test]
async fn credit_accepts_negative_amounts() {
    let (fake, user) = signed_in().await;
    for (args, amount) in [
        (["alice", "20", "--reason", "gift"], "20"),
        (["alice", "-0.50", "--reason", "twice"], "-0.50"),
        (["--reason", "x", "alice", "-5"], "-5"),
        (["alice", "--reason", "x", "-.5"], "-.5"),
    ] {
        let args: Vec<_> = ["ctl", "account", "credit"].into_iter().chain(args).collect();
        user.run(&args, "").await.ok();
        let message = fake.last().message;
        assert!(message.contains(&format!("amount_usd: {amount:?},")), "{message}");
    }
    assert_eq!(user.ctl("account credit alice 5").await.code, 2);
}

#[tokio::test]
async fn suspend_resume_and_plan_send_the_account() {
    let (fake, user) = signed_in().await;
    for (line, sent, printed) in [
        (
            "account suspend alice --reason spam",
            r#"SuspendAccountRequest { account: "alice", reason: "spam" }"#,
            r#""status":"suspended""#,
        ),
        (
            "account resume alice",
            r#"ResumeAccountRequest { account: "alice" }"#,
            r#""status":"active""#,
        ),
        (
            "account plan alice team",
            r#"SetPlanRequest { account: "alice", plan: "team" }"#,
            r#""plan":"team""#,
        ),
    ] {
        let out = user.ctl(&format!("{line} -o jsonl")).await.ok();
        assert_eq!(fake.last().message, sent);
        assert!(out.contains(printed), "{out}");
    }
    assert_eq!(user.ctl("account suspend alice").await.code, 2, "a reason is required");
}

#[tokio::test]
async fn password_change_reads_two_lines_from_stdin() {
    let (fake, user) = signed_in().await;
    let line = "account password --password-stdin";
    let result = user.ctl_with(line, "old one\nnew one\n").await;
    assert_eq!((result.code, &*result.out), (0, ""));
    assert_eq!(result.err, "changed the password; ended 1 other session\n");
    let sent = r#"ChangePasswordRequest { old_password: "old one", new_password: "new one" }"#;
    assert_eq!(fake.last().message, sent);
    assert_eq!(user.ctl_with(line, "wrong\nnew one\n").await.code, 3);
    for (line, stdin) in [(line, "old one\n"), (line, ""), ("account password", "old\nnew\n")] {
        assert_eq!(user.ctl_with(line, stdin).await.code, 2, "{stdin:?}");
    }
}

#[tokio::test]
async fn sessions_are_listed_and_revoked() {
    let (fake, user) = signed_in().await;
    insta::assert_snapshot!(user.ctl("session list").await.ok());
    let result = user.ctl("session revoke 4be1f07a92c3").await;
    assert_eq!((result.code, &*result.err), (0, "ended session 4be1f07a92c3\n"));
    assert_eq!(fake.last().message, r#"RevokeSessionRequest { id: "4be1f07a92c3" }"#);
    let result = user.ctl("session revoke --others").await;
    assert_eq!((result.code, &*result.err), (0, "ended 2 other sessions\n"));
    for line in ["session revoke", "session revoke 4be1f07a92c3 --others"] {
        assert_eq!(user.ctl(line).await.code, 2, "{line}");
    }
}

#[tokio::test]
async fn the_audit_log_is_listed_up_to_the_limit() {
    let (fake, user) = signed_in().await;
    insta::assert_snapshot!(user.ctl("audit list").await.ok());
    insta::assert_snapshot!(user.ctl("audit list -o jsonl").await.ok());
    assert_eq!(fake.calls().len(), 4, "two pages each");
    let line = "audit list --account alice --since 7d --limit 1 -o csv";
    assert_eq!(user.ctl(line).await.ok().lines().count(), 2);
    insta::assert_snapshot!(fake.last().message);
}

#[tokio::test]
async fn export_writes_everything_as_json_lines() {
    let (_fake, user) = signed_in().await;
    let path = user.path("alice.jsonl");
    let line = format!("account export alice --out {}", path.display());
    user.ctl(&line).await.ok();
    let text = std::fs::read_to_string(&path).unwrap();
    let kinds: std::collections::BTreeSet<_> = text
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["record"].as_str().unwrap().to_owned()
        })
        .collect();
    let expected = [
        "account",
        "audit_entry",
        "invite",
        "key",
        "ledger_entry",
        "person",
        "request",
        "response",
        "usage_day",
    ];
    assert!(kinds.iter().eq(expected), "{kinds:?}");
    assert_eq!(user.ctl(&line).await.code, 5, "an existing file stays");
    user.ctl(&format!("{line} --yes")).await.ok();
}

#[tokio::test]
async fn invite_sends_the_ttl_in_seconds() {
    let (fake, user) = signed_in().await;
    let printed = user.ctl("account invite --ttl 48h -o json").await.ok();
    insta::assert_snapshot!(printed);
    user.ctl("account invite").await.ok();
    assert_eq!(
        fake.last().message,
        r#"CreateInviteRequest { ttl_seconds: 604800, plan: "", credit_usd: "" }"#
    );
    user.ctl("account invite --plan team --credit 20").await.ok();
    assert!(fake.last().message.contains(r#"plan: "team", credit_usd: "20""#));
    insta::assert_snapshot!(user.ctl("account invites -o json").await.ok());
    user.ctl("account uninvite 4be1f07a92c3").await.ok();
    assert_eq!(fake.last().message, r#"RevokeInviteRequest { id: "4be1f07a92c3" }"#);
}
