//! Changes of the limits and the spending cap of existing keys: from the next request on, with all that was
//! counted before. The tests of several gateways pass without a server in `TOLLGATE_TEST_POSTGRES`, and say so.

use proto::v1;
use serde_json::Value;
use tests::http::{Answer, Request};
use tests::process::Gateway;
use tests::{GatewayFleet, ManualClock, Product, Session, priced_model, question, with_timeout};

async fn set(
    session: &Session,
    id: &str,
    change: impl FnOnce(&mut v1::UpdateKeyRequest),
) -> v1::Key {
    let mut request = v1::UpdateKeyRequest { id: id.to_owned(), ..Default::default() };
    change(&mut request);
    session.keys().update_key(request).await.unwrap().into_inner().key.unwrap()
}

fn rpm(limit: u64) -> v1::Limits {
    v1::Limits { rpm: Some(limit), ..Default::default() }
}

fn monthly(limit: u64) -> v1::Limits {
    v1::Limits { monthly_tokens: Some(limit), ..Default::default() }
}

fn code(answer: &Answer) -> Value {
    if answer.status == 200 { Value::Null } else { answer.error()["code"].clone() }
}

#[tokio::test]
async fn a_limit_that_is_set_counts_what_the_key_used_before() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let product = Product::with(|setup| setup.clock = std::sync::Arc::new(clock)).await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    let ask = || product.chat(&key.secret, &question("sim-chat", "hi")).answer();
    assert_eq!(ask().await.status, 200);
    let used = alice.record().await.tokens.unwrap();
    let used = used.input.unwrap() + used.output.unwrap();
    set(&alice, &key.id, |it| it.limits = Some(monthly(used))).await;
    assert_eq!(code(&ask().await), "insufficient_quota");
    set(&alice, &key.id, |it| it.limits = Some(monthly(used + 10_000))).await;
    assert_eq!(ask().await.status, 200);

    set(&alice, &key.id, |it| it.limits = Some(rpm(1))).await;
    assert_eq!(ask().await.status, 200, "requests per minute count from now on");
    assert_eq!(code(&ask().await), "rate_limit_exceeded");
    set(&alice, &key.id, |it| it.limits = Some(rpm(2))).await;
    assert_eq!(ask().await.status, 200);
    assert_eq!(code(&ask().await), "rate_limit_exceeded", "the count is kept");
    let changed = set(&alice, &key.id, |it| it.limits = Some(rpm(0))).await;
    assert_eq!(changed.limits.unwrap().rpm, None);
    assert_eq!(ask().await.status, 200);
}

#[tokio::test]
async fn a_cap_that_is_set_counts_what_the_key_spent_before_also_after_a_restart() {
    let product = Product::start().await;
    let operator = product.operator().await;
    operator.add_model(priced_model("priced", &[("simulator", "sim-chat")])).await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    let ask = |product: &Product| product.chat(&key.secret, &question("priced", "hi"));
    assert_eq!(ask(&product).answer().await.status, 200);
    // Less than what was spent is allowed, and refuses the next request.
    let cap = |usd: &str| Some(usd.to_owned());
    set(&alice, &key.id, |it| it.spend_cap_usd = cap("0.000000001")).await;
    assert_eq!(code(&ask(&product).answer().await), "insufficient_quota");
    let request = v1::ListLimitUseRequest { account: String::new() };
    let limits = alice.traffic().list_limit_use(request).await.unwrap().into_inner().limits;
    let spending = limits.iter().find(|it| it.limit == 1).unwrap();
    assert!(spending.used > 1, "{spending:?}");
    set(&alice, &key.id, |it| it.spend_cap_usd = cap("1")).await;
    assert_eq!(ask(&product).answer().await.status, 200);
    set(&alice, &key.id, |it| it.spend_cap_usd = cap("")).await;
    assert_eq!(ask(&product).answer().await.status, 200);

    let product = product.stop().await.start().await;
    let alice = Session::sign_in(&product.admin, "alice").await;
    assert_eq!(ask(&product).answer().await.status, 200);
    set(&alice, &key.id, |it| it.spend_cap_usd = cap("0.00001")).await;
    assert_eq!(code(&ask(&product).answer().await), "insufficient_quota");
}

fn ask(gateway: &Gateway, key: &str) -> Request {
    let request = Request::post(gateway.http, "/v1/chat/completions");
    request.bearer(key).json(&question("priced", "hi"))
}

/// Sends requests to each gateway until it answers with `code`, null for a success.
async fn until(gateways: &[Gateway], key: &str, expected: Value) {
    for gateway in gateways {
        let asking = async { while code(&ask(gateway, key).answer().await) != expected {} };
        with_timeout(&format!("{expected} on every gateway"), asking).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_limits_and_caps_hold_on_all_gateways() {
    let Some(fleet) = GatewayFleet::create("key_settings", 60).await else { return };
    let gateways = [fleet.start("one").await, fleet.start("two").await];
    let operator = fleet.operator("one", &gateways[0]).await;
    operator.add_model(priced_model("priced", &[("simulator", "sim-chat")])).await;
    let key = operator.key().await;
    tests::wait_for_model(&gateways, &key.secret, "priced").await;
    until(&gateways, &key.secret, Value::Null).await;
    let cap = |usd: &str| Some(usd.to_owned());
    set(&operator, &key.id, |it| it.spend_cap_usd = cap("0.000000001")).await;
    until(&gateways, &key.secret, "insufficient_quota".into()).await;
    set(&operator, &key.id, |it| it.spend_cap_usd = cap("1")).await;
    until(&gateways, &key.secret, Value::Null).await;
    set(&operator, &key.id, |it| it.spend_cap_usd = cap("0.0001")).await;
    until(&gateways, &key.secret, "insufficient_quota".into()).await;
    set(&operator, &key.id, |it| it.spend_cap_usd = cap("")).await;
    until(&gateways, &key.secret, Value::Null).await;

    // A quota counts what both gateways used while there was none.
    let used = format!("SELECT sum(input + output)::bigint FROM requests WHERE key = '{}'", key.id);
    let used = u64::try_from(fleet.database.number(&used).await).unwrap();
    set(&operator, &key.id, |it| it.limits = Some(monthly(used))).await;
    until(&gateways, &key.secret, "insufficient_quota".into()).await;
    set(&operator, &key.id, |it| it.limits = Some(monthly(1_000_000))).await;
    until(&gateways, &key.secret, Value::Null).await;
    for gateway in gateways {
        gateway.stop().await;
    }
    fleet.remove().await;
}
