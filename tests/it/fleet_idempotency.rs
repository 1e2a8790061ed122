//! `Idempotency-Key` with several gateways on one PostgreSQL database: a retry at another gateway is
//! not executed again, and gets the first answer. Without a server in `TOLLGATE_TEST_POSTGRES`, each test says that it is
//! skipped, and passes.

use serde_json::json;
use tests::http::{Answer, Request};
use tests::process::Gateway;
use tests::{
    GatewayFleet, Link, RawUpstream, Session, json_answer, question, wait_for_model, with_timeout,
};
use tokio::process::Command;
use tokio::task::JoinSet;

/// The patience in tests that do not wait for its end.
const LONG: u64 = 60;
/// The shortest patience.
const SHORT: u64 = 2;
const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// Two gateways with the model `asked` on an upstream of the test.
struct Pair {
    fleet: GatewayFleet,
    one: Gateway,
    two: Gateway,
    upstream: RawUpstream,
    key: String,
}

impl Pair {
    async fn start(test: &str, patience_seconds: u64) -> Option<Self> {
        let fleet = GatewayFleet::create(test, patience_seconds).await?;
        let (one, two) = (fleet.start("one").await, fleet.start("two").await);
        let upstream = RawUpstream::start().await;
        let operator = fleet.operator("one", &one).await;
        operator.add_model_on("asked", &[&upstream.url]).await;
        let key = operator.key().await.secret;
        wait_for_model([&one, &two], &key, "asked").await;
        Some(Self { fleet, one, two, upstream, key })
    }

    fn ask(&self, gateway: &Gateway, text: &str) -> Request {
        keyed(gateway, &self.key, "asked", text, "one")
    }

    /// Sends a request, and kills the gateway while it is in progress.
    async fn kill_while_serving(&self, gateway: Gateway, request: Request) {
        let mut clients = JoinSet::new();
        clients.spawn(request.try_send());
        let call = self.upstream.call().await;
        gateway.kill().await;
        drop(call);
    }

    /// Returns the first answer with another error than that the request is in progress.
    async fn until_over(&self, gateway: &Gateway) -> Answer {
        let asking = async {
            loop {
                let answer = self.ask(gateway, "hi").answer().await;
                if answer.status == 200 || answer.error()["code"] != "idempotency_in_progress" {
                    return answer;
                }
            }
        };
        with_timeout("the end of the first attempt", asking).await
    }

    /// Asks until the upstream is asked, and answers.
    async fn until_served(&self, gateway: &Gateway) -> Answer {
        let (answer, _) =
            tokio::join!(self.until_over(gateway), self.upstream.answer(json_answer(200, ANSWER)));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    async fn stop(self) {
        for gateway in [self.one, self.two] {
            gateway.stop().await;
        }
        self.fleet.remove().await;
    }
}

fn keyed(gateway: &Gateway, key: &str, model: &str, text: &str, idempotency_key: &str) -> Request {
    let request = Request::post(gateway.http, "/v1/chat/completions");
    request.bearer(key).header("idempotency-key", idempotency_key).json(&question(model, text))
}

#[track_caller]
fn check_error(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.error()["code"]), (status, &json!(code)), "{answer:?}");
}

#[track_caller]
fn check_replayed(answer: &Answer, first: &Answer) {
    assert_eq!((answer.status, answer.header("idempotent-replayed")), (200, "true"), "{answer:?}");
    assert_eq!(answer.text(), first.text());
    assert_eq!(answer.header("content-type"), first.header("content-type"));
}

#[tokio::test]
async fn a_retry_at_another_gateway_is_not_executed() {
    let Some(pair) = Pair::start("idempotent_retry", LONG).await else { return };
    let first = pair.ask(&pair.one, "hi").answer();
    let retrying = async {
        let mut call = pair.upstream.call().await;
        let retry = pair.ask(&pair.two, "hi").answer().await;
        check_error(&retry, 409, "idempotency_in_progress");
        assert_eq!(retry.header("retry-after"), "5");
        let other = pair.ask(&pair.two, "ho").answer().await;
        check_error(&other, 422, "idempotency_key_reused");
        call.send(json_answer(200, ANSWER)).await;
    };
    let (first, ()) = tokio::join!(first, retrying);
    assert_eq!(first.status, 200);
    check_replayed(&pair.until_over(&pair.two).await, &first);
    check_error(&pair.ask(&pair.two, "ho").answer().await, 422, "idempotency_key_reused");
    check_replayed(&pair.ask(&pair.one, "hi").answer().await, &first);
    let Pair { fleet, one, two, .. } = pair;
    for gateway in [one, two] {
        gateway.stop().await;
    }
    let charged = "SELECT count(*) FROM requests WHERE model = 'asked' AND input IS NOT NULL";
    assert_eq!(fleet.database.number(charged).await, 1);
    fleet.remove().await;
}

#[tokio::test]
async fn a_failed_attempt_is_repeated_at_another_gateway() {
    let Some(pair) = Pair::start("idempotent_failure", LONG).await else { return };
    let refused = json_answer(400, r#"{"error":{"message":"no"}}"#);
    let failing = pair.ask(&pair.one, "hi").answer();
    let (failed, _) = tokio::join!(failing, pair.upstream.answer(refused));
    assert_eq!(failed.status, 400);
    let served = pair.until_served(&pair.two).await;
    check_replayed(&pair.until_over(&pair.one).await, &served);

    let unknown = keyed(&pair.one, &pair.key, "no-such-model", "hi", "two").answer().await;
    check_error(&unknown, 404, "model_not_found");
    let unclaimed = async {
        let sql = "SELECT count(*) FROM idempotency_claims WHERE answered_at IS NULL";
        while pair.fleet.database.number(sql).await > 0 {}
    };
    with_timeout("the release of the claim", unclaimed).await;
    pair.stop().await;
}

#[tokio::test]
async fn a_killed_gateway_blocks_a_retry_for_its_patience() {
    let Some(mut pair) = Pair::start("idempotent_killed", SHORT).await else { return };
    let first = pair.ask(&pair.one, "hi");
    let one = std::mem::replace(&mut pair.one, pair.fleet.start("three").await);
    pair.kill_while_serving(one, first).await;
    let retry = pair.ask(&pair.two, "hi").answer().await;
    check_error(&retry, 409, "idempotency_in_progress");
    let served = pair.until_served(&pair.two).await;
    check_replayed(&pair.until_over(&pair.one).await, &served);
    // It does not take the key back.
    let again = pair.fleet.start("one").await;
    check_replayed(&pair.until_over(&again).await, &served);
    again.stop().await;
    pair.stop().await;
}

#[tokio::test]
async fn a_restarted_gateway_knows_what_it_had_answered() {
    let Some(mut pair) = Pair::start("idempotent_restart", LONG).await else { return };
    let first = pair.ask(&pair.one, "hi").answer();
    let (first, _) = tokio::join!(first, pair.upstream.answer(json_answer(200, ANSWER)));
    assert_eq!(first.status, 200);
    let cut_off = keyed(&pair.one, &pair.key, "asked", "hi", "two");
    let one = std::mem::replace(&mut pair.one, pair.fleet.start("three").await);
    pair.kill_while_serving(one, cut_off).await;
    let in_progress = keyed(&pair.two, &pair.key, "asked", "hi", "two").answer().await;
    check_error(&in_progress, 409, "idempotency_in_progress");

    let again = pair.fleet.start("one").await;
    for gateway in [&pair.two, &again] {
        check_replayed(&pair.ask(gateway, "hi").answer().await, &first);
    }
    let repeated = keyed(&pair.two, &pair.key, "asked", "hi", "two").answer();
    let (repeated, _) = tokio::join!(repeated, pair.upstream.answer(json_answer(200, ANSWER)));
    assert_eq!(repeated.status, 200, "it broke off, and is repeated without waiting: {repeated:?}");
    again.stop().await;
    pair.stop().await;
}

#[tokio::test]
async fn of_two_attempts_at_the_same_moment_one_reaches_the_upstream() {
    const REPETITIONS: i64 = 50;
    let Some(pair) = Pair::start("idempotent_race", LONG).await else { return };
    for number in 0..REPETITIONS {
        let name = format!("race {number}");
        let send = |gateway| keyed(gateway, &pair.key, "sim-chat", "hi", &name).answer();
        let (first, second) = tokio::join!(send(&pair.one), send(&pair.two));
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        // The other one comes while the first is in progress, or once it was answered.
        assert!(matches!(statuses, [200, 200 | 409]), "{number}: {first:?} {second:?}");
        if statuses == [200, 200] {
            let replayed = [&first, &second].map(|answer| answer.header("idempotent-replayed"));
            assert!(replayed.contains(&"true") && replayed.contains(&""), "{replayed:?}");
        }
    }
    let Pair { fleet, one, two, .. } = pair;
    for gateway in [one, two] {
        gateway.stop().await;
    }
    let sent = "SELECT count(*) FROM requests WHERE upstream IS NOT NULL";
    assert_eq!(fleet.database.number(sent).await, REPETITIONS);
    let open = "SELECT count(*) FROM idempotency_claims WHERE answered_at IS NULL";
    assert_eq!(fleet.database.number(open).await, 0);
    fleet.remove().await;
}

#[tokio::test]
async fn idempotency_keys_of_different_accounts_are_independent() {
    let Some(pair) = Pair::start("idempotent_accounts", LONG).await else { return };
    let mut keys = Vec::new();
    for name in ["alice", "bob"] {
        let password = format!("correct horse battery {name}");
        let account = Session::register(&pair.one.admin, name, &password).await;
        keys.push(account.key().await.secret);
    }
    for (key, gateway, text) in [(&keys[0], &pair.one, "hi"), (&keys[1], &pair.two, "ho")] {
        wait_for_model([gateway], key, "sim-chat").await;
        let answer = keyed(gateway, key, "sim-chat", text, "one").answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    pair.stop().await;
}

#[tokio::test]
async fn a_request_with_a_key_is_refused_without_the_database() {
    let Some(fleet) = GatewayFleet::create("idempotent_partition", LONG).await else { return };
    let (link, url) = Link::start(&fleet.database.url).await;
    let through = |command: &mut Command| _ = command.env("TOLLGATE_STORE", url);
    let one = fleet.start_with("one", through).await;
    let key = fleet.operator("one", &one).await.key().await.secret;
    let without = async || {
        let request = Request::post(one.http, "/v1/chat/completions").bearer(&key);
        request.json(&question("sim-chat", "hi")).answer().await.status
    };
    // It gets a part of the balance.
    assert_eq!(without().await, 200);
    link.cut();
    let refused = keyed(&one, &key, "sim-chat", "hi", "one").answer().await;
    check_error(&refused, 503, "database_unreachable");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(without().await, 200);
    link.mend();
    let served =
        async { while keyed(&one, &key, "sim-chat", "hi", "one").answer().await.status != 200 {} };
    with_timeout("the database", served).await;
    one.stop().await;
    fleet.remove().await;
}

#[tokio::test]
async fn a_stream_is_replayed_by_another_gateway() {
    let Some(pair) = Pair::start("idempotent_stream", LONG).await else { return };
    let send = |gateway: &Gateway| {
        let mut body = question("sim-chat", "hi");
        body["stream"] = json!(true);
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&pair.key);
        request.header("idempotency-key", "stream").json(&body).answer()
    };
    let first = send(&pair.one).await;
    assert!(first.text().ends_with("data: [DONE]\n\n"), "{first:?}");
    let retrying = async {
        loop {
            let retry = send(&pair.two).await;
            if retry.status != 409 {
                return retry;
            }
        }
    };
    check_replayed(&with_timeout("the stored answer", retrying).await, &first);
    pair.stop().await;
}

#[tokio::test]
async fn without_stored_responses_answers_are_not_shared() {
    let Some(fleet) = GatewayFleet::create("idempotent_unstored", LONG).await else { return };
    let unstored = |command: &mut Command| _ = command.args(["--responses-store", "false"]);
    let one = fleet.start_with("one", unstored).await;
    let two = fleet.start_with("two", unstored).await;
    let key = fleet.operator("one", &one).await.key().await.secret;
    wait_for_model([&one, &two], &key, "sim-chat").await;
    let first = keyed(&one, &key, "sim-chat", "hi", "one").answer().await;
    assert_eq!(first.status, 200);
    let asking = async {
        loop {
            let retry = keyed(&two, &key, "sim-chat", "hi", "one").answer().await;
            if retry.error()["code"] != "idempotency_in_progress" {
                return retry;
            }
        }
    };
    let refused = with_timeout("the record of the first attempt", asking).await;
    check_error(&refused, 409, "idempotent_answer_gone");
    let message = refused.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(first.header("x-request-id")), "{message}");
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}
