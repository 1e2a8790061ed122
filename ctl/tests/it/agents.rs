//! `ctl agent-config`: the configuration on stdout, messages on stderr.

use crate::harness::{TestUser, signed_in, signed_out};

#[tokio::test]
async fn stdout_has_only_the_configuration() {
    let (fake, user) = signed_in().await;
    for agent in ["codex", "opencode", "pi", "qwen-code", "aider"] {
        let result = user.ctl(&format!("agent-config {agent} --model fast")).await;
        assert_eq!(result.code, 0, "{result:?}");
        insta::assert_snapshot!(
            format!("agent_config_{agent}"),
            format!("{}--- stderr\n{}", result.out, result.err)
        );
        assert_eq!(fake.last().message, r#"GetModelRequest { id: "fast" }"#);
    }
}

#[tokio::test]
async fn the_default_model_is_the_first_with_tools_and_is_reported() {
    let (fake, user) = signed_in().await;
    let result = user.ctl("agent-config codex --base-url https://gate.example/v1/").await;
    assert_eq!(fake.last().method, "ListModels");
    assert!(result.err.contains("using the model sim-fast"), "{result:?}");
    assert!(!result.err.contains("assuming that the API"), "{result:?}");
    let out = result.ok();
    assert!(out.contains("model = \"sim-fast\"\n"), "{out}");
    assert!(out.contains("base_url = \"https://gate.example/v1\"\n"), "{out}");
}

#[tokio::test]
async fn the_configuration_refers_to_the_key_but_does_not_contain_it() {
    let (_fake, mut user) = signed_in().await;
    user.environment.api_key = Some("sk-tg-secret".to_owned().into());
    for agent in ["codex", "opencode", "pi", "qwen-code", "aider"] {
        let result = user.ctl(&format!("agent-config {agent} --key-env MY_KEY -o json")).await;
        assert!(!format!("{result:?}").contains("secret"), "{result:?}");
        let record: serde_json::Value = serde_json::from_str(&result.ok()).unwrap();
        assert_eq!(record["agent"], agent);
        assert!(record["configuration"].as_str().unwrap().contains("MY_KEY"), "{record}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_refused() {
    let (fake, mut user) = signed_in().await;
    for line in [
        "agent-config",
        "agent-config emacs",
        "agent-config codex --key-env 1KEY",
        "agent-config codex --key-env A=B",
        "agent-config codex --base-url gate.example",
        "agent-config codex --key-file key.txt",
        "agent-config codex --check",
    ] {
        let result = user.ctl(line).await;
        assert_eq!((result.code, result.out.as_str()), (2, ""), "{line}: {result:?}");
    }
    fake.refuse("GetModel", tonic::Code::NotFound, "no model `x`");
    assert_eq!(user.ctl("agent-config codex --model x").await.code, 4);
    user.environment.token = None;
    let (_fake, user) = signed_out().await;
    assert_eq!(user.ctl("agent-config codex --key-env A").await.code, 0);
}

#[tokio::test]
async fn a_check_of_an_unreachable_api_reports_its_url() {
    let mut user = TestUser::new();
    user.environment.api_key = Some("sk-tg-x".to_owned().into());
    // Nothing listens on port 1.
    let line = "agent-config codex --check --model m --base-url http://127.0.0.1:1/v1";
    let result = user.ctl(line).await;
    assert_eq!((result.code, result.out.as_str()), (6, ""), "{result:?}");
    assert!(result.err.contains("no API answers at `http://127.0.0.1:1/v1`"), "{result:?}");
    let empty = user.path("key.txt");
    let line = format!("{line} --key-file {}", empty.display());
    let result = user.ctl(&line).await;
    assert!(result.code == 1 && result.err.contains("key.txt"), "{result:?}");
}
