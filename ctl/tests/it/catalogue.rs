//! `ctl upstream …`, `ctl model …` and `ctl plan …`

use crate::harness::signed_in;

#[tokio::test]
async fn upstream_add_says_where_the_credential_comes_from() {
    let (fake, person) = signed_in().await;
    for (flags, source) in [
        ("", "credential: None"),
        ("--key-env OPENAI_API_KEY", r#"Env("OPENAI_API_KEY")"#),
        ("--key-file /not/on/this/host", r#"File("/not/on/this/host")"#),
        ("--key-stdin", r#"Secret("sk-upstream")"#),
    ] {
        let line = format!("upstream add up --url http://127.0.0.1:8000/v1 {flags}");
        let ran = person.ctl_with(&line, "sk-upstream\n").await;
        assert!(!ran.ok().contains("sk-upstream"), "{flags}");
        let message = fake.last().message;
        assert!(message.contains(source), "{flags}: {message}");
        assert!(message.contains("profile: Generic"), "{message}");
    }
    person.ctl("upstream add up --url sim: --profile llamacpp --connect-ms 5").await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(person.ctl("upstream add up --url sim: --key-stdin --key-env A").await.code, 2);
    assert_eq!(person.ctl("upstream add up --url sim: --key-stdin").await.code, 2);
}

#[tokio::test]
async fn upstream_update_sends_what_changes() {
    let (fake, person) = signed_in().await;
    person.ctl("upstream update up --profile vllm").await.ok();
    insta::assert_snapshot!(fake.last().message);
    person.ctl("upstream update up --no-key").await.ok();
    assert!(fake.last().message.contains("credential: Some(Credential { source: None })"));
    assert_eq!(person.ctl("upstream update up").await.code, 2);
    assert_eq!(person.ctl("upstream update up --no-key --key-env A").await.code, 2);
}

#[tokio::test]
async fn upstreams_are_listed_with_their_problems_and_removed() {
    let (fake, mut person) = signed_in().await;
    insta::assert_snapshot!(person.ctl("upstream list").await.ok());
    insta::assert_snapshot!(person.ctl("upstream list -o json").await.ok());
    person.environment.width = Some(80);
    let narrow = person.ctl("upstream list").await.ok();
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("PROBLEM") && !narrow.contains("CREDENTIAL NAME"), "{narrow}");
    let ran = person.ctl("upstream remove example").await;
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", "removed upstream example\n"));
    assert_eq!(fake.last().message, r#"RemoveUpstreamRequest { name: "example" }"#);
}

#[tokio::test]
async fn model_add_sends_the_whole_entry() {
    let (fake, person) = signed_in().await;
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
    person.run(&args, "").await.ok();
    insta::assert_snapshot!(fake.last().message);
    person.ctl("model add m --upstream sim").await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(person.ctl("model add m").await.code, 2);
}

#[tokio::test]
async fn model_update_sends_what_changes() {
    let (fake, person) = signed_in().await;
    person
        .ctl("model update m --rpm 0 --limit-mode enforce --price-out 3 --upstream sim:x")
        .await
        .ok();
    insta::assert_snapshot!(fake.last().message);
    person.run(&["ctl", "model", "update", "m", "--alias", "", "--ability", ""], "").await.ok();
    let message = fake.last().message;
    assert!(message.contains("AliasList { aliases: [] }"), "{message}");
    assert!(message.contains("AbilityList { abilities: [] }"), "{message}");
    assert_eq!(person.ctl("model update m").await.code, 2);
}

#[tokio::test]
async fn models_are_listed_shown_and_removed() {
    let (fake, person) = signed_in().await;
    for format in ["table", "json", "csv"] {
        let printed = person.ctl(&format!("model list -o {format}")).await.ok();
        insta::assert_snapshot!(format!("model_list_{format}"), printed);
    }
    insta::assert_snapshot!(person.ctl("model show sim-fast").await.ok());
    assert_eq!(person.ctl("model remove sim-fast").await.ok(), "");
    assert_eq!(fake.last().message, r#"RemoveModelRequest { id: "sim-fast" }"#);
}

#[tokio::test]
async fn plan_set_changes_the_given_fields_and_keeps_the_rest() {
    let (fake, person) = signed_in().await;
    person.ctl("plan set free --rpm 10 --tpm 0 --monthly-tokens 7 --limit-mode observe --model a --model b").await.ok();
    assert_eq!(
        fake.calls().iter().map(|call| call.method).collect::<Vec<_>>(),
        ["GetPlan", "PutPlan"]
    );
    insta::assert_snapshot!(fake.last().message);
}

#[tokio::test]
async fn plan_set_makes_a_plan_that_is_not_there() {
    let (fake, person) = signed_in().await;
    fake.refuse("GetPlan", tonic::Code::NotFound, "no plan `team`");
    person.ctl("plan set team --trial-credit 5 --concurrency 2").await.ok();
    insta::assert_snapshot!(fake.last().message);
    fake.refuse("GetPlan", tonic::Code::PermissionDenied, "operators only");
    assert_eq!(person.ctl("plan set team --rpm 1").await.code, 3);
}

#[tokio::test]
async fn plans_are_listed_and_shown() {
    let (_fake, person) = signed_in().await;
    insta::assert_snapshot!(person.ctl("plan list").await.ok());
    insta::assert_snapshot!(person.ctl("plan show free -o json").await.ok());
}
