//! Several gateways whose wall clocks are ten minutes apart: what they promise holds at the time of
//! the database. Without a server in `TOLLGATE_TEST_POSTGRES`, or without a C compiler, each test
//! says that it is skipped, and passes.

use gateway::clock::{Clock, SystemClock};
use prost_types::Timestamp;
use proto::v1;
use tests::http::{Answer, Request};
use tests::process::Gateway;
use tests::{ClockShift, GatewayFleet, NewKey, Session, question, wait_for_model, with_timeout};
use tonic::Code;

const PATIENCE_SECONDS: u64 = 60;
/// How far one clock is ahead and the other one behind.
const SKEW_SECONDS: i64 = 300;
/// A time that is shorter than the skew, and longer than a test takes.
const SOON_SECONDS: i64 = 150;
/// The name and the password of the customer.
const CUSTOMER: [&str; 2] = ["alice", "correct horse battery alice"];

/// Two gateways, and the customer at the one that is ahead.
struct SkewedFleet {
    fleet: GatewayFleet,
    ahead: Gateway,
    behind: Gateway,
    alice: Session,
}

impl SkewedFleet {
    async fn start(test: &str) -> Option<Self> {
        let fleet = GatewayFleet::create(test, PATIENCE_SECONDS).await?;
        let shift = ClockShift::compile(fleet.scratch()).await?;
        let ahead =
            fleet.start_with("ahead", |it| shift.apply(it.as_std_mut(), SKEW_SECONDS)).await;
        let behind =
            fleet.start_with("behind", |it| shift.apply(it.as_std_mut(), -SKEW_SECONDS)).await;
        let [name, password] = CUSTOMER;
        let alice = Session::register(&ahead.admin, name, password).await;
        Some(Self { fleet, ahead, behind, alice })
    }

    fn gateways(&self) -> [&Gateway; 2] {
        [&self.ahead, &self.behind]
    }

    async fn key(&self, change: impl FnOnce(&mut v1::CreateKeyRequest)) -> NewKey {
        let key = self.alice.key_with(change).await;
        wait_for_model(self.gateways(), &key.secret, "sim-chat").await;
        key
    }

    async fn finish(self) {
        let operator = self.fleet.operator("ahead", &self.ahead).await;
        let verification = v1::VerifyLedgerRequest {};
        let proof = operator.ledger().verify_ledger(verification).await.unwrap().into_inner();
        assert!(proof.differences.is_empty(), "{proof:?}");
        for gateway in [self.ahead, self.behind] {
            gateway.stop().await;
        }
        self.fleet.remove().await;
    }
}

async fn chat(gateway: &Gateway, key: &str) -> Answer {
    let request = Request::post(gateway.http, "/v1/chat/completions");
    request.bearer(key).json(&question("sim-chat", "hi")).answer().await
}

fn seconds_from_now(seconds: i64) -> Timestamp {
    Timestamp { seconds: SystemClock::new().now().as_second() + seconds, nanos: 0 }
}

/// Asserts that `time` is now, as far as a test can know.
fn assert_is_now(time: Option<Timestamp>) {
    let age = seconds_from_now(0).seconds - time.unwrap().seconds;
    assert!(age.abs() < SOON_SECONDS, "{age} s");
}

#[tokio::test]
async fn keys_sessions_and_records_have_the_time_of_the_database() {
    let Some(skewed) = SkewedFleet::start("fleet_clocks_time").await else { return };
    let key = skewed.key(|key| key.expires_at = Some(seconds_from_now(SOON_SECONDS))).await.secret;
    for gateway in skewed.gateways() {
        assert_eq!(chat(gateway, &key).await.status, 200);
    }
    for record in skewed.alice.records(2).await {
        assert_is_now(record.started_at);
    }
    let [name, _] = CUSTOMER;
    let mut ends = Vec::new();
    for gateway in skewed.gateways() {
        let session = Session::sign_in(&gateway.admin, name).await;
        assert_is_now(session.account().await.created_at);
        let over = v1::CreateKeyRequest {
            label: "over".to_owned(),
            expires_at: Some(seconds_from_now(-SOON_SECONDS)),
            ..Default::default()
        };
        let refusal = session.keys().create_key(over).await.unwrap_err();
        assert_eq!(refusal.code(), Code::InvalidArgument, "{refusal:?}");
        let sessions = session.accounts().list_sessions(v1::ListSessionsRequest::default()).await;
        let sessions = sessions.unwrap().into_inner().sessions;
        ends.extend(sessions.into_iter().map(|session| session.expires_at.unwrap().seconds));
    }
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    assert!(last - first < SOON_SECONDS, "sessions of one minute end {} s apart", last - first);
    skewed.finish().await;
}

#[tokio::test]
async fn limits_and_balances_hold_whatever_the_clocks_say() {
    const RPM: usize = 6;
    let Some(skewed) = SkewedFleet::start("fleet_clocks_limits").await else { return };
    let limits = v1::Limits { rpm: Some(RPM as u64), ..Default::default() };
    let limited = skewed.key(|key| key.limits = Some(limits)).await.secret;
    let mut statuses = Vec::new();
    for _ in 0..=RPM {
        for gateway in skewed.gateways() {
            statuses.push(chat(gateway, &limited).await.status);
        }
    }
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), RPM, "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");

    let key = skewed.key(|_| {}).await.secret;
    let operator = skewed.fleet.operator("behind", &skewed.behind).await;
    let balance = skewed.alice.account().await.balance_usd;
    operator.credit(CUSTOMER[0], &format!("-{balance}")).await;
    operator.credit(CUSTOMER[0], "0.001").await;
    for gateway in skewed.gateways() {
        while chat(gateway, &key).await.status == 200 {}
        assert_eq!(chat(gateway, &key).await.status, 429);
    }
    skewed.finish().await;
}

#[tokio::test]
async fn retries_and_responses_are_recognised_whatever_the_clocks_say() {
    let Some(skewed) = SkewedFleet::start("fleet_clocks_retries").await else { return };
    let key = skewed.key(|_| {}).await.secret;
    let [ahead, behind] = skewed.gateways();
    for (number, [first, second]) in [[ahead, behind], [behind, ahead]].into_iter().enumerate() {
        let send = |gateway: &Gateway| {
            let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
            let request = request.header("idempotency-key", &format!("retry-{number}"));
            request.json(&question("sim-chat", "once")).answer()
        };
        assert_eq!(send(first).await.status, 200);
        // The answer reaches the database a moment after the client.
        let retrying = async {
            loop {
                let retry = send(second).await;
                if retry.status != 409 {
                    return retry;
                }
            }
        };
        let retry = with_timeout("the answer of the other gateway", retrying).await;
        assert_eq!((retry.status, retry.header("idempotent-replayed")), (200, "true"));

        let send = |gateway: &Gateway, body: serde_json::Value| {
            Request::post(gateway.http, "/v1/responses").bearer(&key).json(&body).answer()
        };
        let body = serde_json::json!({ "model": "sim-chat", "input": "hello" });
        let answer = send(first, body.clone()).await.json();
        let mut body = body;
        body["previous_response_id"] = answer["id"].clone();
        assert_eq!(send(second, body).await.status, 200);
    }
    skewed.finish().await;
}
