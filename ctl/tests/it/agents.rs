//! `ctl agent-config`: the configuration on stdout, everything else on stderr.

use crate::harness::{Person, signed_in, stranger};

#[tokio::test]
async fn the_configuration_alone_is_on_stdout() {
    let (fake, person) = signed_in().await;
    for agent in ["codex", "opencode", "pi", "qwen-code", "aider"] {
        let ran = person.ctl(&format!("agent-config {agent} --model fast")).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        insta::assert_snapshot!(
            format!("agent_config_{agent}"),
            format!("{}--- stderr\n{}", ran.out, ran.err)
        );
        assert_eq!(fake.last().message, r#"GetModelRequest { id: "fast" }"#);
    }
}

#[tokio::test]
async fn without_a_model_the_first_that_calls_tools_is_chosen_and_named() {
    let (fake, person) = signed_in().await;
    let ran = person.ctl("agent-config codex --base-url https://gate.example/v1/").await;
    assert_eq!(fake.last().method, "ListModels");
    assert!(ran.err.contains("chose the model sim-fast"), "{ran:?}");
    assert!(!ran.err.contains("taken to be"), "{ran:?}");
    let out = ran.ok();
    assert!(out.contains("model = \"sim-fast\"\n"), "{out}");
    assert!(out.contains("base_url = \"https://gate.example/v1\"\n"), "{out}");
}

#[tokio::test]
async fn the_key_is_named_and_never_printed() {
    let (_fake, mut person) = signed_in().await;
    person.environment.api_key = Some("sk-tg-secret".to_owned().into());
    for agent in ["codex", "opencode", "pi", "qwen-code", "aider"] {
        let ran = person.ctl(&format!("agent-config {agent} --key-env MY_KEY -o json")).await;
        assert!(!format!("{ran:?}").contains("secret"), "{ran:?}");
        let record: serde_json::Value = serde_json::from_str(&ran.ok()).unwrap();
        assert_eq!(record["agent"], agent);
        assert!(record["configuration"].as_str().unwrap().contains("MY_KEY"), "{record}");
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let (fake, mut person) = signed_in().await;
    for line in [
        "agent-config",
        "agent-config emacs",
        "agent-config codex --key-env 1KEY",
        "agent-config codex --key-env A=B",
        "agent-config codex --base-url gate.example",
        "agent-config codex --key-file key.txt",
        "agent-config codex --check",
    ] {
        let ran = person.ctl(line).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line}: {ran:?}");
    }
    fake.refuse("GetModel", tonic::Code::NotFound, "no model `x`");
    assert_eq!(person.ctl("agent-config codex --model x").await.code, 4);
    person.environment.token = None;
    let (_fake, stranger) = stranger().await;
    assert_eq!(stranger.ctl("agent-config codex --key-env A").await.code, 0);
}

#[tokio::test]
async fn a_check_that_reaches_nobody_says_where_it_looked() {
    let mut person = Person::new();
    person.environment.api_key = Some("sk-tg-x".to_owned().into());
    // port 1 of the loopback is nobody's
    let line = "agent-config codex --check --model m --base-url http://127.0.0.1:1/v1";
    let ran = person.ctl(line).await;
    assert_eq!((ran.code, ran.out.as_str()), (6, ""), "{ran:?}");
    assert!(ran.err.contains("no API answers at `http://127.0.0.1:1/v1`"), "{ran:?}");
    let empty = person.path("key.txt");
    let line = format!("{line} --key-file {}", empty.display());
    let ran = person.ctl(&line).await;
    assert!(ran.code == 1 && ran.err.contains("key.txt"), "{ran:?}");
}
