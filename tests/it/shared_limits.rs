//! Balances and limits that several gateways share: together they never use more than there is, and
//! each can use all of it. Without a server in `TOLLGATE_TEST_POSTGRES`, each test says that it is
//! skipped, and passes.

use domain::money::Nanos;
use proto::v1;
use serde_json::{Value, json};
use tests::http::{Answer, Request};
use tests::process::Gateway;
use tests::{GatewayFleet, Session, priced_model, question, wait_for_model, with_timeout};
use tokio::task::JoinSet;

const PATIENCE_SECONDS: u64 = 60;

/// Returns a question to a priced model whose possible cost is small.
fn cheap(text: &str) -> Value {
    let mut body = question("priced", text);
    body["max_tokens"] = json!(20);
    body
}

fn ask(gateway: &Gateway, key: &str, body: &Value) -> Request {
    Request::post(gateway.http, "/v1/chat/completions").bearer(key).json(body)
}

/// Sends `count` concurrent requests to each gateway and returns the answers.
async fn ask_all(gateways: &[Gateway], key: &str, body: &Value, count: usize) -> Vec<Answer> {
    let mut requests = JoinSet::new();
    for gateway in gateways.iter().cycle().take(count * gateways.len()) {
        let request = ask(gateway, key, body);
        requests.spawn(async move { request.answer().await });
    }
    requests.join_all().await
}

/// Sends requests to each gateway until it refuses several in turn: one refusal may mean that another
/// gateway did not give back its part in time.
async fn exhaust(gateways: &[Gateway], key: &str) {
    for gateway in gateways {
        let mut refusals = 0;
        while refusals < 4 {
            let answer = ask(gateway, key, &cheap("hi")).answer().await;
            refusals = if answer.status == 200 { 0 } else { refusals + 1 };
        }
    }
}

fn succeeded(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.status == 200).count()
}

/// Three gateways with a priced model, and the operator at the first one.
async fn start(fleet: &GatewayFleet) -> (Vec<Gateway>, Session) {
    let mut gateways = Vec::new();
    for name in ["one", "two", "three"] {
        gateways.push(fleet.start(name).await);
    }
    let operator = fleet.operator("one", &gateways[0]).await;
    operator.add_model(priced_model("priced", &[("simulator", "sim-chat")])).await;
    (gateways, operator)
}

/// Stops the gateways. Checks that nothing remains allocated, except what counts under limits of
/// the last minute, and that the ledger adds up.
async fn stop(fleet: GatewayFleet, gateways: Vec<Gateway>) {
    for gateway in gateways {
        gateway.stop().await;
    }
    let kept = "SELECT count(*) FROM allocations WHERE kind NOT IN ('rpm', 'tpm')";
    assert_eq!(fleet.database.number(kept).await, 0, "a stopped gateway keeps an allocation");
    let last = fleet.start("one").await;
    let operator = fleet.operator("one", &last).await;
    let verified = operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap();
    let report = verified.into_inner();
    assert!(report.differences.is_empty(), "{report:?}");
    last.stop().await;
    fleet.remove().await;
}

async fn balance(session: &Session) -> Nanos {
    session.account().await.balance_usd.parse().unwrap()
}

async fn cost_of_all(fleet: &GatewayFleet, key: &str) -> i64 {
    let sql = format!("SELECT coalesce(sum(cost), 0)::bigint FROM requests WHERE key = '{key}'");
    fleet.database.number(&sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_gateways_spend_a_balance_to_its_end_and_no_further() {
    let Some(fleet) = GatewayFleet::create("shared_balance", PATIENCE_SECONDS).await else {
        return;
    };
    let (gateways, operator) = start(&fleet).await;
    let alice = Session::register(&gateways[0].admin, "alice", "correct horse battery alice").await;
    operator.credit("alice", "-4.998").await;
    assert_eq!(balance(&alice).await, Nanos(2_000_000));
    let key = alice.key().await;
    wait_for_model(&gateways, &key.secret, "priced").await;
    let mut all = Vec::new();
    // Each costs some 50,000 nanodollars.
    for _ in 0..3 {
        all.extend(ask_all(&gateways, &key.secret, &cheap("hi"), 10).await);
    }
    let refused = all.iter().filter(|answer| answer.status != 200);
    let refused: Vec<_> = refused.map(|answer| (answer.status, answer.text())).collect();
    let count = succeeded(&all);
    assert!(count > 5 && !refused.is_empty(), "{count} {refused:?}");
    assert!(refused.iter().all(|(status, _)| matches!(status, 402 | 429)), "{refused:?}");
    // What is left may be with any gateway, and each must be able to collect it, sooner or later.
    let spend = async {
        loop {
            exhaust(&gateways, &key.secret).await;
            let left = balance(&alice).await;
            if left < Nanos(60_000) {
                return left;
            }
        }
    };
    let left = with_timeout("the use of the whole balance", spend).await;
    assert!(left >= Nanos::ZERO, "{left}");
    assert_eq!(cost_of_all(&fleet, &key.id).await, 2_000_000 - left.0);
    operator.credit("alice", "1").await;
    for gateway in &gateways {
        let ask = || ask(gateway, &key.secret, &cheap("hi")).answer();
        let served = async { while ask().await.status != 200 {} };
        with_timeout("the credit on every gateway", served).await;
    }
    operator.credit("alice", "-10").await;
    for gateway in &gateways {
        let ask = || ask(gateway, &key.secret, &cheap("hi")).answer();
        let refused = async { while ask().await.status == 200 {} };
        with_timeout("the debit on every gateway", refused).await;
    }
    assert!(balance(&alice).await < Nanos(-8_900_000_000), "a debit takes what gateways have");
    stop(fleet, gateways).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_per_minute_hold_over_all_gateways_and_one_can_use_them_whole() {
    let Some(fleet) = GatewayFleet::create("shared_rates", PATIENCE_SECONDS).await else { return };
    let (gateways, operator) = start(&fleet).await;
    let limits = v1::Limits { rpm: Some(30), ..Default::default() };
    let key = operator.key_with(|key| key.limits = Some(limits)).await.secret;
    wait_for_model(&gateways, &key, "priced").await;
    let first = ask_all(&gateways, &key, &question("sim-chat", "hi"), 2).await;
    assert_eq!(succeeded(&first), 6, "{first:?}");
    let hot = ask_all(&gateways[2..], &key, &question("sim-chat", "hi"), 60).await;
    let count = succeeded(&hot);
    assert!((20..=24).contains(&count), "one gateway reaches nearly all of the limit: {count}");
    let rest = ask_all(&gateways, &key, &question("sim-chat", "hi"), 20).await;
    let count = 6 + count + succeeded(&rest);
    assert!((28..=30).contains(&count), "{count}");
    // A restart does not forget the last minute.
    let [one, two, three]: [Gateway; 3] = gateways.try_into().ok().unwrap();
    three.kill().await;
    two.stop().await;
    let gateways = [one, fleet.start("two").await, fleet.start("three").await];
    let again = ask_all(&gateways, &key, &question("sim-chat", "hi"), 10).await;
    assert!(count + succeeded(&again) <= 30, "{count} {again:?}");
    stop(fleet, gateways.into()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_place_is_passed_from_one_gateway_to_the_next() {
    let Some(fleet) = GatewayFleet::create("shared_places", PATIENCE_SECONDS).await else { return };
    let (gateways, operator) = start(&fleet).await;
    let limits = v1::Limits { concurrency: Some(1), ..Default::default() };
    let key = operator.key_with(|key| key.limits = Some(limits)).await.secret;
    wait_for_model(&gateways, &key, "priced").await;
    for round in 0..3 {
        for gateway in &gateways {
            let answer = ask(gateway, &key, &question("sim-chat", "hi")).answer().await;
            assert_eq!(answer.status, 200, "{round}: {answer:?}");
        }
    }
    stop(fleet, gateways).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_and_quotas_hold_over_all_gateways() {
    let Some(fleet) = GatewayFleet::create("shared_quotas", PATIENCE_SECONDS).await else { return };
    let (gateways, operator) = start(&fleet).await;
    operator.credit("operator", "100").await;
    let capped = operator.key_with(|key| key.spend_cap_usd = "0.001".to_owned()).await;
    wait_for_model(&gateways, &capped.secret, "priced").await;
    let answers = ask_all(&gateways, &capped.secret, &cheap("hi"), 20).await;
    let count = succeeded(&answers);
    exhaust(&gateways, &capped.secret).await;
    operator.account().await;
    let spent = cost_of_all(&fleet, &capped.id).await;
    assert!((940_000..=1_000_000).contains(&spent), "{spent} by {count}");

    let limits = v1::Limits { monthly_tokens: Some(500), ..Default::default() };
    let limited = operator.key_with(|key| key.limits = Some(limits)).await;
    wait_for_model(&gateways, &limited.secret, "priced").await;
    let answers = ask_all(&gateways, &limited.secret, &cheap("hi"), 20).await;
    let count = succeeded(&answers);
    exhaust(&gateways, &limited.secret).await;
    operator.account().await;
    let sql = format!(
        "SELECT coalesce(sum(input + output), 0)::bigint FROM requests WHERE key = '{}'",
        limited.id
    );
    let used = fleet.database.number(&sql).await;
    assert!((440..=500).contains(&used), "{used} by {count}");
    stop(fleet, gateways).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_gateway_had_returns_with_its_restart_or_its_removal() {
    let Some(fleet) = GatewayFleet::create("shared_killed", PATIENCE_SECONDS).await else { return };
    let (mut gateways, operator) = start(&fleet).await;
    let alice = Session::register(&gateways[0].admin, "alice", "correct horse battery alice").await;
    let key = alice.key().await;
    wait_for_model(&gateways, &key.secret, "priced").await;
    let answers = ask_all(&gateways, &key.secret, &cheap("hi"), 5).await;
    assert_eq!(succeeded(&answers), 15);
    gateways.pop().unwrap().kill().await;
    let held = "SELECT coalesce(sum(amount), 0)::bigint FROM allocations WHERE kind = 'balance' \
        AND node = (SELECT id FROM nodes WHERE name = 'three')";
    assert!(fleet.database.number(held).await > 0);
    gateways.push(fleet.start("three").await);
    assert_eq!(fleet.database.number(held).await, 0, "the start gave it back");
    operator.account().await;
    let requests = format!("SELECT count(*) FROM requests WHERE key = '{}'", key.id);
    let wait = async { while fleet.database.number(&requests).await < 15 {} };
    with_timeout("all records", wait).await;
    stop(fleet, gateways).await;
}

/// Regression test: a stop gave everything back although the database had not accepted all records,
/// so that other gateways could use what these had been paid from.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_keeps_what_the_records_in_its_journal_were_paid_from() {
    let Some(fleet) = GatewayFleet::create("shared_unwritten", PATIENCE_SECONDS).await else {
        return;
    };
    let (mut gateways, operator) = start(&fleet).await;
    let key = operator.key().await;
    wait_for_model(&gateways, &key.secret, "priced").await;
    // Commits wait for this lock.
    fleet.database.client.batch_execute("BEGIN; SELECT FROM log_end FOR UPDATE").await.unwrap();
    let answer = ask(&gateways[2], &key.secret, &cheap("hi")).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    gateways.pop().unwrap().stop().await;
    let held = "SELECT coalesce(sum(amount), 0)::bigint FROM allocations WHERE kind = 'balance' \
        AND node = (SELECT id FROM nodes WHERE name = 'three' AND NOT stopped)";
    assert!(fleet.database.number(held).await > 0);
    fleet.database.client.batch_execute("COMMIT").await.unwrap();
    gateways.push(fleet.start("three").await);
    assert_eq!(fleet.database.number(held).await, 0, "the start gave it back");
    let requests = format!("SELECT count(*) FROM requests WHERE key = '{}' AND cost > 0", key.id);
    assert_eq!(fleet.database.number(&requests).await, 1);
    stop(fleet, gateways).await;
}
