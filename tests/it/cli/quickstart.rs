//! `ctl quickstart` with models that answer, and models that do not.

use serde_json::Value;
use tests::http::Request;
use tests::{Product, closed_port, question};

use super::user::User;

/// Runs the quickstart with JSON output. Returns its exit code, stdout and stderr.
async fn quickstart(user: &User, more: &str) -> (u8, Value, String) {
    let line = format!("quickstart -o json{more}");
    let ran = user.ctl(&line).await;
    (ran.code, ran.out.parse().unwrap_or_default(), ran.err)
}

#[tokio::test]
async fn the_printed_code_uses_a_model_whose_upstream_answers() {
    let product = Product::on_http1(|_| {}).await;
    // the first of the catalogue, whose upstream is unreachable
    product.serve_model("a-first", &closed_port().await, "far").await;
    let newcomer = User::new(&product);
    let (code, started, stderr) = quickstart(&newcomer, "").await;
    assert_eq!((code, &started["model"]), (0, &"sim-chat".into()), "{stderr}");
    assert_eq!(started["base_url"], format!("http://{}/v1", product.http));
    assert!(stderr.contains("a-first does not answer: HTTP 50"), "{stderr}");

    let secret = started["secret"].as_str().unwrap();
    let request = Request::post(product.http, "/v1/chat/completions").bearer(secret);
    let answer = request.json(&question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    let (code, started, stderr) = quickstart(&newcomer, " --model a-first").await;
    assert_eq!((code, &started["model"]), (6, &"a-first".into()), "{stderr}");
    assert!(stderr.contains("`ctl doctor`"), "{stderr}");
    let (code, started, stderr) = quickstart(&newcomer, " --model gpt-9").await;
    assert_eq!((code, &started), (4, &Value::Null), "{stderr}");
}

#[tokio::test]
async fn the_operator_can_run_the_quickstart() {
    let product = Product::on_http1(|_| {}).await;
    let (code, started, stderr) = quickstart(&User::operator(&product), "").await;
    assert_eq!((code, &started["account"]), (0, &"operator".into()), "{stderr}");
}

#[tokio::test]
async fn the_environment_of_a_finished_demo_creates_no_accounts() {
    let product = Product::on_http1(|_| {}).await;
    let mut newcomer = User::new(&product);
    let gone = product.home.scratch().join("tollgate-demo/operator.token");
    newcomer.environment.token_file = Some(gone);
    for _ in 0..2 {
        let (code, _, stderr) = quickstart(&newcomer, "").await;
        assert_eq!(code, 0, "{stderr}");
    }
    let accounts = User::operator(&product).json("account list").await;
    assert_eq!(accounts.as_array().unwrap().len(), 2, "the operator and the newcomer: {accounts}");
}

#[tokio::test]
async fn the_public_url_is_printed_for_clients() {
    let public_url = closed_port().await;
    let product =
        Product::on_http1(|setup| setup.config.public_url = Some(public_url.clone())).await;
    let operator = User::operator(&product);
    let configuration = operator.ok("agent-config codex").await;
    assert!(configuration.contains(&public_url), "{configuration}");
    // That address is unreachable, which is reported before anything is created.
    let ran = operator.ctl("quickstart").await;
    assert!(ran.code == 6 && ran.err.contains(&public_url), "{ran:?}");
    let found = operator.json("doctor").await;
    let api = found.as_array().unwrap().iter().find(|it| it["area"] == "api").unwrap();
    assert_eq!((&api["subject"], &api["severity"]), (&Value::from(public_url), &"warning".into()));
    assert!(api["remedy"].as_str().unwrap().contains("public_url"), "{api}");
}
