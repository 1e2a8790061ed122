//! Tests of `ctl upstream …`, `ctl model …` and `ctl plan …`.

use tonic::Code;

use crate::harness::signed_in;

#[tokio::test]
async fn upstream_add_sends_the_credential_source() {
    let (fake, user) = signed_in().await;
    for (flags, source) in [
        ("", "credentials: []"),
        ("--key-env OPENAI_API_KEY", r#"Env("OPENAI_API_KEY")"#),
        ("--key-file /not/on/this/host", r#"File("/not/on/this/host")"#),
        ("--key-stdin", r#"Secret("sk-upstream")"#),
        (
            "--key-stdin --key-file /b --key-env A --key-env B",
            r#"[Env("A"), Env("B"), File("/b"), Secret("sk-upstream")]"#,
        ),
    ] {
        let line = format!("upstream add up --url http://127.0.0.1:8000/v1 {flags}");
        let result = user.ctl_with(&line, "sk-upstream\n").await;
        assert!(!result.ok().contains("sk-upstream"), "{flags}");
        // The sources alone.
        let message = fake.last().message.replace("Credential { source: Some(", "");
        let message = message.replace(") }", "");
        assert!(message.contains(source), "{flags}: {message}");
        assert!(message.contains("profile: Generic"), "{message}");
    }
    user.ctl("upstream add up --url sim: --profile llamacpp --connect-ms 5").await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(user.ctl("upstream add up --url sim: --key-stdin").await.code, 2);
    let two_lines = "upstream add up --url sim: --key-stdin --key-stdin";
    user.ctl_with(two_lines, "sk-one\nsk-two\n").await.ok();
    let message = fake.last().message;
    assert!(message.contains("sk-one") && message.contains("sk-two"), "{message}");
    assert_eq!(user.ctl_with(two_lines, "sk-one\n").await.code, 2);
}

#[tokio::test]
async fn upstream_update_sends_only_changes() {
    let (fake, user) = signed_in().await;
    user.ctl("upstream update up --profile vllm").await.ok();
    insta::assert_snapshot!(fake.last().message);
    user.ctl("upstream update up --no-key").await.ok();
    assert!(fake.last().message.contains("credentials: Some(CredentialList { credentials: [] })"));
    user.ctl("upstream update up --key-env NEW --key-keep 2 --key-keep 1").await.ok();
    let message = fake.last().message;
    let order = ["Current(2)", "Current(1)", r#"Env("NEW")"#].map(|it| message.find(it).unwrap());
    assert!(order.is_sorted(), "{message}");
    assert_eq!(user.ctl("upstream update up").await.code, 2);
    assert_eq!(user.ctl("upstream update up --no-key --key-env A").await.code, 2);
}

#[tokio::test]
async fn upstreams_are_listed_with_their_problems_and_removed() {
    let (fake, mut user) = signed_in().await;
    insta::assert_snapshot!(user.ctl("upstream list").await.ok());
    insta::assert_snapshot!(user.ctl("upstream list -o json").await.ok());
    insta::assert_snapshot!(user.ctl("upstream show example").await.ok());
    assert_eq!(user.ctl("upstream show nothing").await.code, 4);
    user.environment.width = Some(80);
    let narrow = user.ctl("upstream list").await.ok();
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("PROBLEM") && !narrow.contains("CREDENTIAL NAME"), "{narrow}");
    let result = user.ctl("upstream reset example -o json").await;
    assert_eq!(result.err, "requests go to upstream example again, on this gateway\n");
    let upstream: serde_json::Value = serde_json::from_str(&result.ok()).unwrap();
    assert_eq!(upstream["name"], "example");
    let sent: Vec<_> = fake.calls().into_iter().filter(|it| it.method == "ResetUpstream").collect();
    assert!(
        matches!(&sent[..], [call] if call.message == r#"ResetUpstreamRequest { name: "example" }"#)
    );
    let result = user.ctl("upstream remove example").await;
    assert_eq!((result.code, &*result.out, &*result.err), (0, "", "removed upstream example\n"));
    assert_eq!(fake.last().message, r#"RemoveUpstreamRequest { name: "example" }"#);
}

/// Regression test: the command failed although the upstream was reset.
#[tokio::test]
async fn a_reset_succeeds_even_if_the_upstream_cannot_be_read_afterwards() {
    let (fake, user) = signed_in().await;
    let reset = user.ctl("upstream reset example -o json").await.ok();
    assert!(
        reset.contains(r#""name":"example""#) || reset.contains(r#""name": "example""#),
        "{reset}"
    );
    fake.refuse("ListUpstreams", Code::Unavailable, "shutting down");
    let result = user.ctl("upstream reset example -o json").await;
    assert_eq!((result.code, &*result.out), (0, ""));
    assert_eq!(result.err, "requests go to upstream example again, on this gateway\n");
}

#[tokio::test]
async fn model_add_sends_all_fields() {
    let (fake, user) = signed_in().await;
    let args = [
        "ctl",
        "model",
        "add",
        "llama3",
        "--upstream",
        "ollama:llama3:8b",
        "--upstream",
        "vllm",
        "--display-name",
        "Llama 3",
        "--description",
        "A model.",
        "--context",
        "8192",
        "--max-output",
        "4096",
        "--rpm",
        "60",
        "--tpm",
        "9000",
        "--concurrency",
        "4",
        "--price-in",
        "0.05",
        "--price-cached",
        "0.01",
        "--price-out",
        "0.10",
        "--alias",
        "llama",
        "--ability",
        "tools,structured-output",
        "--ability",
        "structured_output",
    ];
    user.run(&args, "").await.ok();
    insta::assert_snapshot!(fake.last().message);
    user.ctl("model add m --upstream sim").await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(user.ctl("model add m").await.code, 2);
}

#[tokio::test]
async fn model_update_sends_only_changes() {
    let (fake, user) = signed_in().await;
    user.ctl("model update m --rpm 0 --limit-mode enforce --price-out 3 --upstream sim:x")
        .await
        .ok();
    insta::assert_snapshot!(fake.last().message);
    user.run(&["ctl", "model", "update", "m", "--alias", "", "--ability", ""], "").await.ok();
    let message = fake.last().message;
    assert!(message.contains("AliasList { aliases: [] }"), "{message}");
    assert!(message.contains("AbilityList { abilities: [] }"), "{message}");
    assert_eq!(user.ctl("model update m").await.code, 2);
}

#[tokio::test]
async fn models_are_listed_shown_and_removed() {
    let (fake, user) = signed_in().await;
    for format in ["table", "json", "csv"] {
        let printed = user.ctl(&format!("model list -o {format}")).await.ok();
        insta::assert_snapshot!(format!("model_list_{format}"), printed);
    }
    insta::assert_snapshot!(user.ctl("model show sim-fast").await.ok());
    assert_eq!(user.ctl("model remove sim-fast").await.ok(), "");
    assert_eq!(fake.last().message, r#"RemoveModelRequest { id: "sim-fast" }"#);
}

#[tokio::test]
async fn plan_set_changes_the_given_fields_and_keeps_the_rest() {
    let (fake, user) = signed_in().await;
    user.ctl("plan set free --rpm 10 --tpm 0 --monthly-tokens 7 --limit-mode observe --model a --model b").await.ok();
    assert_eq!(
        fake.calls().iter().map(|call| call.method).collect::<Vec<_>>(),
        ["GetPlan", "PutPlan"]
    );
    insta::assert_snapshot!(fake.last().message);
}

#[tokio::test]
async fn plan_set_creates_a_missing_plan() {
    let (fake, user) = signed_in().await;
    fake.refuse("GetPlan", tonic::Code::NotFound, "no plan `team`");
    user.ctl("plan set team --trial-credit 5 --concurrency 2").await.ok();
    insta::assert_snapshot!(fake.last().message);
    fake.refuse("GetPlan", tonic::Code::PermissionDenied, "operators only");
    assert_eq!(user.ctl("plan set team --rpm 1").await.code, 3);
}

#[tokio::test]
async fn plans_are_listed_and_shown() {
    let (_fake, user) = signed_in().await;
    insta::assert_snapshot!(user.ctl("plan list").await.ok());
    insta::assert_snapshot!(user.ctl("plan show free -o json").await.ok());
}
