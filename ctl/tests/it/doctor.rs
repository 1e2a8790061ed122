//! Tests of `ctl doctor`.

use std::os::unix::fs::PermissionsExt;

use tonic::Code;

use crate::harness::{CommandResult, TestUser, signed_in, signed_out};

/// Redacts the port and the durations, which differ between runs.
fn redacted(result: &CommandResult, server: &str) -> String {
    let mut text = format!("{}---\n{}", result.out, result.err).replace(server, "SERVER");
    while let Some(start) = text.find(" ms)") {
        let open = text[..start].rfind('(').unwrap();
        text.replace_range(open..start + 4, "<elapsed>");
    }
    text
}

#[tokio::test]
async fn exits_with_0_without_problems() {
    let (fake, user) = signed_in().await;
    let result = user.ctl("doctor").await;
    assert_eq!(result.code, 0, "{result:?}");
    insta::assert_snapshot!(redacted(&result, &fake.server));
    assert_eq!(fake.last().message, "DiagnoseRequest { send_requests: false }");
    user.ctl("doctor --send-requests").await.ok();
    assert_eq!(fake.last().message, "DiagnoseRequest { send_requests: true }");
}

#[tokio::test]
async fn exits_with_1_and_prints_the_remedy_of_a_problem() {
    let (fake, user) = signed_in().await;
    fake.inject_problems();
    fake.skew_clock(-90_500);
    let result = user.ctl("doctor").await;
    assert_eq!(result.code, 1, "{result:?}");
    insta::assert_snapshot!(redacted(&result, &fake.server));
    let result = user.ctl("doctor -o json").await;
    assert_eq!(result.code, 1);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&result.out).unwrap();
    let bad: Vec<_> = findings.iter().filter(|it| it["severity"] != "ok").collect();
    assert_eq!((&bad[0]["area"], &bad[1]["area"]), (&"clock".into(), &"upstream".into()));
    assert!(bad.iter().all(|it| it["remedy"].is_string()), "{findings:?}");
    let jsonl = user.ctl("doctor -o jsonl").await.out;
    assert_eq!(jsonl.lines().count(), findings.len());
}

#[tokio::test]
async fn findings_are_wrapped_and_indented_on_a_terminal() {
    let (fake, mut user) = signed_in().await;
    fake.skew_clock(-90_500);
    user.environment.width = Some(60);
    let out = user.ctl("doctor").await.ok();
    assert!(out.lines().all(|line| line.chars().count() <= 60), "{out}");
    let clock: Vec<_> = out.lines().skip_while(|line| !line.contains("clock")).take(4).collect();
    let indent = " ".repeat(22);
    assert!(clock[1..].iter().all(|line| line.starts_with(&indent)), "{out}");
    assert!(clock[3].trim().ends_with("(`timedatectl set-ntp true`)"), "not wrapped: {out}");
}

#[tokio::test]
async fn a_secret_file_that_others_can_read_is_a_problem() {
    let (_fake, user) = signed_in().await;
    user.write_operator_token();
    let file = user.environment.data_dir.as_ref().unwrap().join("operator.token");
    let allow = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o644);
    let result = user.ctl("doctor").await;
    assert_eq!(result.code, 1);
    assert!(result.out.contains(&format!("chmod 600 {}", file.display())), "{result:?}");
    allow(0o600);
    user.ctl("doctor").await.ok();
    let line = format!("doctor --token-file {}", file.display());
    let out = user.ctl(&line).await.ok();
    assert_eq!(out.matches("only its owner can read it").count(), 1, "reported once: {out}");
}

#[tokio::test]
async fn members_get_a_warning_instead_of_gateway_diagnostics() {
    let (fake, user) = signed_in().await;
    fake.refuse("Diagnose", Code::PermissionDenied, "operators only");
    let result = user.ctl("doctor").await;
    assert_eq!(result.code, 0, "{result:?}");
    assert!(result.out.contains("for operators"), "{result:?}");
    assert!(result.err.contains("1 warning"), "{result:?}");
}

#[tokio::test]
async fn a_missing_token_and_a_failed_connection_are_explained() {
    let (fake, mut user) = signed_out().await;
    let result = user.ctl("doctor").await;
    assert_eq!(result.code, 1);
    assert!(result.out.contains("ctl login NAME"), "{result:?}");
    assert_eq!(fake.last().method, "WhoAmI", "no further checks without a token");
    user.environment.token_file = Some(user.path("missing.token"));
    let result = user.ctl("doctor").await;
    assert!(result.code == 1 && result.out.contains("missing.token"), "{result:?}");
    let mut user = TestUser::new();
    // Nothing listens on port 1.
    user.environment.server = Some("http://127.0.0.1:1".to_owned());
    let result = user.ctl("doctor").await;
    assert!(result.code == 1 && result.out.contains("no gateway answers"), "{result:?}");
}
