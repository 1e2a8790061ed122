//! Coding agents: the configurations that `ctl` prints for them, `--check`, and the catalogue in
//! Codex's format.

use std::collections::BTreeSet;

use ctl::profile::Environment;
use proto::v1::{Ability, AddModelRequest, Model};
use serde_json::Value;
use tests::Product;

/// The result of a command.
#[derive(Debug)]
struct AgentConfigResult {
    code: u8,
    out: String,
    err: String,
}

/// Runs `ctl agent-config` with `key`.
async fn agent_config(product: &Product, key: &str, line: &str) -> AgentConfigResult {
    let home = tempfile::tempdir().unwrap();
    let mut environment = Environment::for_home(home.path());
    environment.server = Some(product.admin.clone());
    environment.token = Some(product.home.operator_token().into());
    environment.api_key = Some(key.to_owned().into());
    let args = ["ctl", "agent-config"].into_iter().chain(line.split(' '));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = ctl::run(args, &environment, &mut &b""[..], &mut out, &mut err).await;
    AgentConfigResult {
        code,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// Checks one agent's configuration through the API.
async fn check(product: &Product, key: &str, agent: &str, model: &str) -> AgentConfigResult {
    let line = format!("{agent} --check --model {model} --base-url http://{}/v1", product.http);
    agent_config(product, key, &line).await
}

#[tokio::test]
async fn the_example_files_equal_the_output_of_agent_config() {
    let product = Product::on_http1(|_| {}).await;
    for (agent, example) in [("codex", examples::CODEX), ("opencode", examples::OPENCODE)] {
        let line = format!("{agent} --model sim-chat --base-url http://127.0.0.1:8080/v1");
        let ran = agent_config(&product, "", &line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.out, example);
    }
}

#[tokio::test]
async fn a_check_sends_the_requests_of_each_agent() {
    let product = Product::on_http1(|_| {}).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut records = 0;
    for (agent, requests, endpoint) in [
        ("codex", 2, "responses"),
        ("opencode", 2, "responses"),
        ("pi", 2, "chat.completions"),
        ("qwen-code", 2, "chat.completions"),
        ("aider", 1, "chat.completions"),
    ] {
        let ran = check(&product, &key, agent, "sim-chat").await;
        assert_eq!((ran.code, ran.out.lines().count()), (0, requests), "{agent}: {ran:?}");
        assert!(requests == 1 || ran.out.contains(r#"\"tollgate-check\""#), "{agent}: {ran:?}");
        assert!(ran.err.contains(&format!("{agent} can work with `sim-chat`")), "{ran:?}");
        assert!(!format!("{ran:?}").contains(&key), "{ran:?}");
        records += requests;
        let found = product.operator().await.records(records).await;
        let newest = found.iter().max_by_key(|record| &record.id).unwrap();
        assert_eq!(newest.endpoint, endpoint, "{agent}");
    }
    let ran = check(&product, &key, "codex -o jsonl", "sim-reasoner").await;
    let steps: Vec<Value> = ran.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!((ran.code, steps.len()), (0, 2), "{steps:?}");
}

#[tokio::test]
async fn a_failed_check_reports_the_reason() {
    let product = Product::on_http1(|_| {}).await;
    let key = product.member("alice").await.key().await.secret;
    product.serve_model("mute", "sim:", "sim-chat?say=no").await;
    product.serve_model("torn", "sim:", "sim-chat?cut=3").await;
    product.serve_model("busy", "sim:", "sim-chat?status=503").await;
    product.serve_model("odd", "sim:", "sim-chat?tool=other").await;
    for (agent, key, model, why) in [
        ("codex", key.as_str(), "mute", "the model did not call `shell`: it answered \"no\""),
        ("pi", &key, "mute", "the model did not call `shell`: it answered \"no\""),
        ("pi", &key, "odd", "it called `other` instead"),
        ("codex", &key, "torn", "the answer failed: "),
        ("qwen-code", &key, "torn", "the answer failed: "),
        ("opencode", &key, "busy", "HTTP 50"),
        ("codex", &key, "gpt-9", "HTTP 404: model `gpt-9`"),
        ("codex", "sk-tg-wrong", "mute", "(invalid_api_key)"),
    ] {
        let ran = check(&product, key, agent, model).await;
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{agent} {model}: {ran:?}");
        assert!(ran.err.contains(why), "{agent} {model}: {ran:?}");
    }
}

#[tokio::test]
async fn codex_gets_the_catalogue_in_its_format() {
    let product = Product::on_http1(|_| {}).await;
    let operator = product.operator().await;
    let deployment = operator
        .models()
        .list_models(proto::v1::ListModelsRequest {})
        .await
        .unwrap()
        .into_inner()
        .models
        .remove(0)
        .deployments;
    let model = Model {
        id: "vendor/seer".to_owned(),
        display_name: "Seer".to_owned(),
        description: "Sees and thinks.".to_owned(),
        context_window: Some(64_000),
        abilities: [Ability::Tools, Ability::Vision, Ability::Reasoning].map(Into::into).to_vec(),
        aliases: vec!["seer".to_owned()],
        deployments: deployment,
        ..Model::default()
    };
    operator.models().add_model(AddModelRequest { model: Some(model) }).await.unwrap();
    let key = product.member("alice").await.key().await.secret;
    let list = async |path: &str| product.get(path).bearer(&key).answer().await.json();

    let known = list("/v1/models").await;
    assert_eq!(known.as_object().unwrap().keys().collect::<Vec<_>>(), ["data", "object"]);
    let mut both = list("/v1/models?client_version=0.169.0").await;
    let models = both.as_object_mut().unwrap().remove("models").unwrap();
    assert_eq!(both, known);

    let models = models.as_array().unwrap();
    let slugs: Vec<_> = models.iter().map(|model| model["slug"].as_str().unwrap()).collect();
    assert_eq!(slugs, ["sim-chat", "sim-reasoner", "vendor/seer", "seer"]);
    let fields =
        |model: &Value| model.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert!(models.iter().all(|model| fields(model) == fields(&models[0])));
    assert!(models[2]["base_instructions"].as_str().unwrap().starts_with("You are Codex"));
    let mut seer = models[2].clone();
    seer["base_instructions"] = "…".into();
    insta::assert_json_snapshot!(seer);
    let differing: Vec<_> = fields(&models[2])
        .into_iter()
        .filter(|field| models[2][field] != models[3][field])
        .collect();
    assert_eq!(differing, ["slug", "visibility"]);
    assert_eq!(models[0]["default_reasoning_level"], Value::Null);
}

#[tokio::test]
async fn a_key_lists_only_its_own_models_in_both_formats() {
    let product = Product::on_http1(|_| {}).await;
    let alice = product.member("alice").await;
    let key = alice.key_with(|request| request.models = vec!["sim-chat".to_owned()]).await.secret;
    let list = product.get("/v1/models?client_version=1").bearer(&key).answer().await.json();
    for (shape, name) in [("data", "id"), ("models", "slug")] {
        let models = list[shape].as_array().unwrap();
        assert_eq!(models.len(), 1);
        assert_eq!(models[0][name], "sim-chat");
    }
}
