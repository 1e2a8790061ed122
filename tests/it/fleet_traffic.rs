//! Traffic with several gateways on one PostgreSQL database: each shows that of all. Without a server in
//! `TOLLGATE_TEST_POSTGRES`, the test says that it is skipped, and passes.

use proto::v1;
use tests::http::Request;
use tests::process::Gateway;
use tests::{
    GatewayFleet, RawUpstream, Session, json_answer, question, wait_for_model, with_timeout,
};

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":10}}"#;

fn ask(gateway: &Gateway, key: &str, model: &str) -> Request {
    let request = Request::post(gateway.http, "/v1/chat/completions");
    request.bearer(key).json(&question(model, "hi"))
}

/// Watches the traffic of `account` until `in_flight` requests are in flight, and the others have `tokens` and
/// `errors` in all. Questions for the list of models are counted, too, and have neither.
async fn wait_for(
    caller: &Session,
    account: &str,
    (in_flight, tokens, errors): (u64, u64, u64),
) -> v1::WatchTrafficResponse {
    let request = v1::WatchTrafficRequest { account: account.to_owned(), interval_ms: 250 };
    let mut snapshots = caller.traffic().watch_traffic(request).await.unwrap().into_inner();
    let watching = async {
        loop {
            let snapshot = snapshots.message().await.unwrap().unwrap();
            let sum = |of: fn(&v1::MinuteTraffic) -> u64| snapshot.minutes.iter().map(of).sum();
            let sums: (u64, u64) = (sum(|minute| minute.tokens), sum(|minute| minute.errors));
            assert!(sums.0 <= tokens && sums.1 <= errors, "{sums:?}");
            if (snapshot.in_flight, sums) == (in_flight, (tokens, errors)) {
                return snapshot;
            }
        }
    };
    with_timeout("the traffic of all gateways", watching).await
}

#[tokio::test]
async fn every_gateway_shows_the_traffic_of_all() {
    let Some(fleet) = GatewayFleet::create("fleet_traffic", 60).await else { return };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let upstream = RawUpstream::start().await;
    let (at_one, at_two) = (fleet.operator("one", &one).await, fleet.operator("two", &two).await);
    at_one.add_model_on("asked", &[&upstream.url]).await;
    let key = at_one.key().await.secret;
    wait_for_model([&one, &two], &key, "asked").await;

    let serving = async {
        let mut call = upstream.call().await;
        wait_for(&at_two, "*", (1, 0, 0)).await;
        call.send(json_answer(200, ANSWER)).await;
        call.finish().await;
    };
    let (answer, ()) = tokio::join!(ask(&one, &key, "asked").answer(), serving);
    assert_eq!(answer.status, 200);
    for gateway in [&one, &two] {
        assert_eq!(ask(gateway, &key, "no-such-model").answer().await.status, 404);
    }
    for caller in [&at_one, &at_two] {
        for account in ["*", ""] {
            let all = wait_for(caller, account, (0, 40, 2)).await;
            let errors = all.errors.iter().map(|error| (error.code.as_str(), error.count));
            assert_eq!(errors.collect::<Vec<_>>(), [("model_not_found", 2)]);
            assert!(all.ttft.is_some());
        }
    }
    // What a killed gateway had reported is still shown, also by its next process.
    one.kill().await;
    let one = fleet.start("one").await;
    wait_for(&fleet.operator("one", &one).await, "*", (0, 40, 2)).await;
    wait_for(&at_two, "*", (0, 40, 2)).await;
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}
