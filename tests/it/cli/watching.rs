//! The state of a running gateway as `ctl` shows it: traffic, limits, health, usage, filtered
//! requests, findings.

use serde_json::{Value, json};
use tests::{Product, closed_port, question};

use super::user::{User, member};

/// Returns these fields of each row of a list.
fn rows(list: &Value, fields: &[&str]) -> Value {
    let row = |entry: &Value| fields.iter().map(|field| entry[*field].clone()).collect::<Value>();
    list.as_array().unwrap().iter().map(row).collect()
}

async fn send_request(product: &Product, key: &str, model: &str) {
    product.chat(key.trim(), &question(model, "hi")).answer().await;
}

#[tokio::test]
async fn traffic_limits_and_health_count_the_same_requests() {
    let product = Product::start().await;
    product.serve_model("broken", "sim:", "sim-chat?status=500").await;
    let operator = User::operator(&product);
    operator.ok("plan set free --rpm 100").await;
    let (alice, bob) = (member(&product, "alice").await, member(&product, "bob").await);
    let key = alice.json("key create ci --rpm 20 --spend-cap 2").await;
    let secret = key["secret"].as_str().unwrap();
    send_request(&product, secret, "sim-chat").await;
    send_request(&product, secret, "broken").await;
    let records = product.operator().await.records(2).await;

    let fields = ["scope", "subject", "kind", "limit", "used"];
    let id = &key["id"];
    let spent = records[0].cost_usd.as_deref().unwrap().parse::<domain::money::Nanos>();
    let spent = spent.unwrap().0;
    let known = json!([
        ["plan", "free", "requests", 100, 2],
        ["key", id, "requests", 20, 2],
        ["key", id, "spending", 2_000_000_000_u64, spent],
    ]);
    assert_eq!(rows(&alice.json("account limits").await, &fields), known);
    assert_eq!(rows(&operator.json("account limits alice").await, &fields), known);
    assert_eq!(rows(&bob.json("account limits").await, &fields)[0][4], 0);
    assert_ne!(bob.ctl("account limits alice").await.code, 0);

    for (user, command, ended) in [
        (&alice, "traffic", 2),
        (&operator, "traffic --account alice", 2),
        (&operator, "traffic --account *", 2),
        (&bob, "traffic", 0),
    ] {
        let traffic = user.json(command).await;
        let minutes = traffic["minutes"].as_array().unwrap();
        let sum: u64 = minutes.iter().map(|minute| minute["requests"].as_u64().unwrap()).sum();
        assert_eq!((minutes.len(), sum), (60, ended), "{command}: {traffic}");
        assert_eq!(traffic["in_flight"], 0, "{traffic}");
        let errors = if ended > 0 { json!([["upstream_error", 1]]) } else { json!([]) };
        assert_eq!(rows(&traffic["errors"], &["code", "count"]), errors);
    }
    assert_eq!(bob.ctl("traffic --account *").await.code, 3);

    let health = operator.json("upstream health").await;
    assert_eq!(
        rows(&health, &["name", "breaker", "in_flight"]),
        json!([["simulator", "closed", 0], ["up-broken", "closed", 0]])
    );
    assert_eq!(rows(&health, &["requests", "failures", "last_error"])[0], json!([1, 0, null]));
    assert!(health[1]["failures"].as_u64() > Some(0), "{health}");
    assert!(health[1]["last_error"].is_string(), "{health}");
    assert_eq!(alice.ctl("upstream health").await.code, 3);
}

#[tokio::test]
async fn usage_is_summed_by_key_and_all_commands_apply_filters_alike() {
    let product = Product::start().await;
    let alice = member(&product, "alice").await;
    let mut keys = Vec::new();
    for (label, models) in
        [("ci", &["sim-chat", "sim-chat", "gpt-9"][..]), ("laptop", &["sim-chat"])]
    {
        let key = alice.json(&format!("key create {label}")).await;
        for model in models {
            send_request(&product, key["secret"].as_str().unwrap(), model).await;
        }
        keys.push(key["id"].as_str().unwrap().to_owned());
    }
    product.operator().await.records(4).await;

    let usage = alice.json("usage").await;
    let mut by_key: Vec<_> = usage["by_key"].as_array().unwrap().iter().collect();
    by_key.sort_by_key(|sum| sum["label"].to_string());
    let by_key: Value = by_key.into_iter().cloned().collect();
    let fields = ["key", "label", "account", "requests", "errors"];
    let known = json!([[keys[0], "ci", "alice", 3, 1], [keys[1], "laptop", "alice", 1, 0]]);
    assert_eq!(rows(&by_key, &fields), known);
    let one = alice.json(&format!("usage --key {}", keys[1])).await;
    assert_eq!(
        (&one["totals"]["requests"], rows(&one["by_key"], &fields)[0][2].as_str()),
        (&json!(1), Some("alice"))
    );

    for (expression, count) in [
        ("status:rejected", 1),
        ("-status:completed", 1),
        ("model:sim-chat,gpt-9", 4),
        ("model:sim-chat cost>0 tokens>0", 3),
        (&format!("key:{} -error:model_not_found since:1h", keys[0]), 2),
        ("until:1h", 0),
    ] {
        let args = |command| [command, ["--filter", expression, "-o", "json"].as_slice()].concat();
        let listed = alice.run(args(&["request", "list"]).into_iter(), "").await;
        assert_eq!(listed.code, 0, "{expression}: {listed:?}");
        let records: Value = listed.out.parse().unwrap();
        assert_eq!(records.as_array().unwrap().len(), count, "{expression}: {records}");
        let summed = alice.run(args(&["usage"]).into_iter(), "").await;
        let sums: Value = summed.out.parse().unwrap();
        assert_eq!(sums["totals"]["requests"], count, "{expression}: {sums}");
    }
    for (expression, code, about) in [("colour:red", 2, "`colour"), ("account:bob", 4, "`bob`")] {
        let ran = alice.ctl(&format!("request list --filter {expression}")).await;
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{ran:?}");
        assert!(ran.err.contains(about), "{ran:?}");
    }
}

#[tokio::test]
async fn the_doctor_shows_the_gateways_own_findings() {
    let product = Product::start().await;
    let (operator, alice) = (User::operator(&product), member(&product, "alice").await);
    let findings = operator.json("doctor").await;
    let areas = rows(&findings, &["area"]);
    for area in ["server", "token", "clock", "secrets", "database", "ledger", "upstream"] {
        assert!(areas.as_array().unwrap().contains(&json!([area])), "{area}: {areas}");
    }

    let url = closed_port().await;
    operator.ok(&format!("upstream add away --url {url}")).await;
    let ran = operator.ctl("doctor -o json").await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("1 problem found"), "{ran:?}");
    let findings: Value = ran.out.parse().unwrap();
    let problems = findings.as_array().unwrap().iter().filter(|it| it["severity"] == "problem");
    let problems: Vec<_> = problems.collect();
    assert_eq!((problems.len(), &problems[0]["subject"]), (1, &json!("away")), "{problems:?}");
    assert!(problems[0]["remedy"].as_str().unwrap().contains("ctl upstream update away"));

    let hers = alice.json("doctor").await;
    let last = hers.as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["area"], &last["severity"]),
        (&json!("gateway"), &json!("warning")),
        "{hers}"
    );
}
