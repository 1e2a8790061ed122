//! `ctl doctor`

use std::os::unix::fs::PermissionsExt;

use tonic::Code;

use crate::harness::{Person, Ran, signed_in, stranger};

/// The port and how long things took differ from run to run.
fn settled(ran: &Ran, server: &str) -> String {
    let mut text = format!("{}---\n{}", ran.out, ran.err).replace(server, "SERVER");
    while let Some(start) = text.find(" ms)") {
        let open = text[..start].rfind('(').unwrap();
        text.replace_range(open..start + 4, "<elapsed>");
    }
    text
}

#[tokio::test]
async fn all_is_well_and_the_exit_code_is_zero() {
    let (fake, person) = signed_in().await;
    let ran = person.ctl("doctor").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!(settled(&ran, &fake.server));
    assert_eq!(fake.last().message, "DiagnoseRequest { send_requests: false }");
    person.ctl("doctor --send-requests").await.ok();
    assert_eq!(fake.last().message, "DiagnoseRequest { send_requests: true }");
}

#[tokio::test]
async fn a_problem_comes_with_what_to_do_and_exit_code_one() {
    let (fake, person) = signed_in().await;
    fake.damage();
    fake.skew_clock(-90_500);
    let ran = person.ctl("doctor").await;
    assert_eq!(ran.code, 1, "{ran:?}");
    insta::assert_snapshot!(settled(&ran, &fake.server));
    let ran = person.ctl("doctor -o json").await;
    assert_eq!(ran.code, 1);
    let findings: Vec<serde_json::Value> = serde_json::from_str(&ran.out).unwrap();
    let bad: Vec<_> = findings.iter().filter(|it| it["severity"] != "ok").collect();
    assert_eq!((&bad[0]["area"], &bad[1]["area"]), (&"clock".into(), &"upstream".into()));
    assert!(bad.iter().all(|it| it["remedy"].is_string()), "{findings:?}");
    let jsonl = person.ctl("doctor -o jsonl").await.out;
    assert_eq!(jsonl.lines().count(), findings.len());
}

#[tokio::test]
async fn a_terminal_is_told_in_lines_that_fit_and_keep_their_indent() {
    let (fake, mut person) = signed_in().await;
    fake.skew_clock(-90_500);
    person.environment.width = Some(60);
    let told = person.ctl("doctor").await.ok();
    assert!(told.lines().all(|line| line.chars().count() <= 60), "{told}");
    let clock: Vec<_> = told.lines().skip_while(|line| !line.contains("clock")).take(4).collect();
    let indent = " ".repeat(22);
    assert!(clock[1..].iter().all(|line| line.starts_with(&indent)), "{told}");
    assert!(clock[3].trim().starts_with("NTP (`timedatectl set-ntp true`)"), "whole: {told}");
}

#[tokio::test]
async fn a_file_that_others_may_read_is_a_problem() {
    let (_fake, person) = signed_in().await;
    person.finds_operator_token();
    let file = person.environment.data_dir.as_ref().unwrap().join("operator.token");
    let allow = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o644);
    let ran = person.ctl("doctor").await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains(&format!("chmod 600 {}", file.display())), "{ran:?}");
    allow(0o600);
    person.ctl("doctor").await.ok();
    let line = format!("doctor --token-file {}", file.display());
    let told = person.ctl(&line).await.ok();
    assert_eq!(told.matches("only its owner may read it").count(), 1, "once a file: {told}");
}

#[tokio::test]
async fn a_member_is_told_that_the_rest_is_for_operators() {
    let (fake, person) = signed_in().await;
    fake.refuse("Diagnose", Code::PermissionDenied, "operators only");
    let ran = person.ctl("doctor").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("for operators"), "{ran:?}");
    assert!(ran.err.contains("1 warning"), "{ran:?}");
}

#[tokio::test]
async fn whoever_cannot_sign_in_or_connect_hears_why() {
    let (fake, mut person) = stranger().await;
    let ran = person.ctl("doctor").await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("ctl login NAME"), "{ran:?}");
    assert_eq!(fake.last().method, "WhoAmI", "who is nobody has nothing else examined");
    person.environment.token_file = Some(person.path("missing.token"));
    let ran = person.ctl("doctor").await;
    assert!(ran.code == 1 && ran.out.contains("missing.token"), "{ran:?}");
    let mut lost = Person::new();
    // port 1 of the loopback is nobody's
    lost.environment.server = Some("http://127.0.0.1:1".to_owned());
    let ran = lost.ctl("doctor").await;
    assert!(ran.code == 1 && ran.out.contains("no gateway answers"), "{ran:?}");
}
