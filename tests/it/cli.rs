//! End-to-end scenarios with `ctl` alone.

mod client_certificate;
mod following;
mod quickstart;
mod upstream_settings;
mod upstream_tls;
mod user;
mod watching;

use serde_json::{Value, json};
use tests::{Product, question};

use self::user::{User, member};

#[tokio::test]
async fn a_new_account_creates_a_key_and_sees_its_requests_in_the_log() {
    let product = Product::start().await;
    let alice = member(&product, "alice").await;
    let account = alice.json("whoami").await;
    let fields = ["name", "role", "status", "plan", "balance_usd"];
    let shown: Vec<_> = fields.iter().map(|field| account[*field].as_str().unwrap()).collect();
    assert_eq!(shown, ["alice", "member", "active", "free", "5"]);

    let key = alice.ok("key create ci --quiet").await;
    assert!(key.starts_with("sk-tg-") && key.lines().count() == 1, "{key}");
    let answer = product.chat(key.trim(), &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200);
    product.chat(key.trim(), &question("gpt-9", "hi")).answer().await;
    product.operator().await.records(2).await;

    let lines = alice.ok("request list -o jsonl").await;
    let records: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2);
    for record in &records {
        for name in [
            "id",
            "account",
            "key",
            "model",
            "endpoint",
            "stream",
            "status",
            "http_status",
            "error_code",
            "input_tokens",
            "cached_tokens",
            "output_tokens",
            "reasoning_tokens",
            "usage_basis",
            "cost_usd",
            "started_at",
            "duration_ms",
            "ttft_ms",
        ] {
            assert!(record.get(name).is_some(), "`{name}` is missing in {record}");
        }
    }
    let (refused, served) = (&records[0], &records[1]);
    assert_eq!((&refused["status"], &refused["input_tokens"]), (&"rejected".into(), &Value::Null));
    assert_eq!(
        (&served["status"], &served["usage_basis"]),
        (&"completed".into(), &"upstream".into())
    );
    assert_eq!(served["id"], answer.header("x-request-id"));
    assert_eq!(served["input_tokens"], answer.json()["usage"]["prompt_tokens"]);
    assert!(served["cost_usd"].is_string(), "amounts are decimal strings: {served}");

    let only = alice.ok("request list --status rejected -o jsonl").await;
    assert_eq!(only.lines().count(), 1);
    let shown = alice.json(&format!("request show {}", answer.header("x-request-id"))).await;
    assert_eq!(&shown, served);
    let summary = alice.json("usage summary").await;
    assert_eq!(summary["totals"]["requests"], 2, "{summary}");
}

#[tokio::test]
async fn an_operator_adds_a_model_and_credits_an_account() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    operator.ok("upstream add local --url sim: --profile generic").await;
    operator
        .ok("model add house --upstream local:sim-chat --display-name House --context 8192 --price-in 1 --price-cached 0.1 --price-out 2 --rpm 600")
        .await;
    let model = operator.json("model show house").await;
    assert_eq!(
        (&model["id"], &model["display_name"]),
        (&"house".into(), &"House".into()),
        "{model}"
    );
    let alice = member(&product, "alice").await;
    operator.ok("account credit alice 2.5 --reason gift").await;
    assert_eq!(alice.json("whoami").await["balance_usd"], "7.5");

    let key = alice.ok("key create k --quiet --model house").await;
    let answer = product.chat(key.trim(), &question("house", "hi")).answer().await;
    assert_eq!((answer.status, &answer.json()["model"]), (200, &"house".into()));
    alice.ok("key list").await;
    let id = alice.json("key list").await[0]["id"].as_str().unwrap().to_owned();
    alice.ok(&format!("key revoke {id}")).await;
    assert_eq!(product.chat(key.trim(), &question("house", "hi")).answer().await.status, 401);
    operator.ok("model remove house").await;
    operator.ok("upstream remove local").await;
}

#[tokio::test]
async fn account_and_plan_changes_are_in_the_audit_log() {
    let product = Product::start().await;
    let (alice, operator) = (member(&product, "alice").await, User::operator(&product));
    let old = alice.json("key create ci").await;
    let new = alice.ok(&format!("key rotate {} --quiet", old["id"].as_str().unwrap())).await;
    let both = [old["secret"].as_str().unwrap(), new.trim()];
    for secret in both {
        let answer = product.chat(secret, &question("sim-chat", "hi")).answer().await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(alice.json("session list").await[0]["current"], true);
    alice.ok("session revoke --others").await;
    let passwords = "correct horse battery staple\nanother horse\n";
    let ran = alice.ctl_with("account password --password-stdin", passwords).await;
    assert_eq!(ran.code, 0, "{ran:?}");

    operator.ok("plan set team --rpm 600").await;
    operator.ok("account plan alice team").await;
    operator.ok("account suspend alice --reason overdue").await;
    assert_eq!(alice.json("whoami").await["status"], "suspended");
    assert_eq!(alice.ctl("key create more").await.code, 3);
    operator.ok("account resume alice").await;
    assert_eq!(operator.ctl("account suspend operator --reason oops").await.code, 5);

    let log = operator.json("audit list --since 1h --account alice").await;
    let actions = log.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap());
    let actions: Vec<_> = actions.filter(|action| *action != "session.create").collect();
    let expected = [
        "account.resume",
        "account.suspend",
        "account.plan",
        "account.password",
        "session.revoke_others",
        "key.rotate",
        "key.create",
        "account.register",
    ];
    assert_eq!(actions, expected);
    assert_eq!(alice.json("audit list").await, log, "its entries concern no other account");
}

#[tokio::test]
async fn a_forgotten_password_is_replaced_with_a_code() {
    let product = Product::start().await;
    let (alice, operator) = (member(&product, "alice").await, User::operator(&product));
    assert_eq!(alice.ctl("account reset-password alice").await.code, 3);
    let code = operator.ok("account reset-password alice --quiet").await;
    let login = format!("login alice --password-stdin --reset-code {}", code.trim());
    let anew = User::new(&product);
    let ran = anew.ctl_with(&login, "another horse\n").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(anew.json("whoami").await["name"], "alice");
    assert_eq!(alice.ctl("whoami").await.code, 3, "its session has ended");
    assert_eq!(alice.ctl_with(&login, "a third horse\n").await.code, 3, "the code was used");
    let log = operator.json("audit list --account alice").await;
    let entry = |action: &str| {
        let found = log.as_array().unwrap().iter().find(|entry| entry["action"] == action);
        found.unwrap_or_else(|| panic!("{action}: {log}")).clone()
    };
    assert_eq!(entry("account.reset_password")["actor"], "operator");
    assert_eq!(entry("account.password")["actor"], "alice");
    assert!(entry("account.reset_password")["address"].is_string());
}

#[tokio::test]
async fn exit_codes_distinguish_kinds_of_errors() {
    let product = Product::start().await;
    let (anonymous, alice) = (User::new(&product), member(&product, "alice").await);
    let operator = User::operator(&product);
    for (user, line, code) in [
        (&anonymous, "whoami", 3),
        (&alice, "account list", 3),
        (&alice, "upstream add u --url sim:", 3),
        (&alice, "key revoke 00000000", 4),
        (&alice, "account show operator", 4),
        (&alice, "request show 019a9f0e-0000-7000-8000-000000000000", 4),
        (&operator, "model show gpt-9", 4),
        (&operator, "upstream add simulator --url sim:", 5),
        (&operator, "upstream remove simulator", 5),
        (&operator, "account credit alice much --reason x", 2),
        (&alice, "frobnicate", 2),
    ] {
        let ran = user.ctl(line).await;
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{line}: {ran:?}");
        assert!(!ran.err.is_empty(), "{line}");
    }
    let taken = anonymous.ctl_with("register alice --password-stdin", "long enough\n").await;
    assert_eq!(taken.code, 5, "{taken:?}");
    let wrong = anonymous.ctl_with("login alice --password-stdin", "wrong password\n").await;
    assert_eq!(wrong.code, 3, "{wrong:?}");
    product.stop().await;
    assert_eq!(alice.ctl("whoami").await.code, 6);
}

#[tokio::test]
async fn logout_ends_the_session() {
    let product = Product::start().await;
    let alice = member(&product, "alice").await;
    alice.ok("logout").await;
    assert_eq!(alice.ctl("whoami").await.code, 3);
}

#[tokio::test]
async fn every_account_may_ask_which_version_runs() {
    let product = Product::start().await;
    let alice = member(&product, "alice").await;
    let programs = alice.json("version").await;
    let schema = gateway::app::SCHEMAS[0].to_string();
    let program = |name: &str, schema: Option<&str>| {
        json!({
            "program": name,
            "version": version::VERSION,
            "commit": version::COMMIT,
            "schema": schema,
        })
    };
    assert_eq!(
        programs,
        Value::from(vec![program("ctl", None), program("gateway", Some(&schema))])
    );
}
