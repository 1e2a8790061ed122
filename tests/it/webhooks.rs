//! Webhooks: signed messages about what operators act on, each once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use data_encoding::BASE64;
use gateway::clock::{Clock as _, SystemClock};
use gateway::webhooks::{EventKind, SigningSecret, WebhookConfig, WebhookUrl};
use proto::v1::{self, DiagnosticArea, Severity};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tests::drill::rig;
use tests::http::Request;
use tests::process::Gateway;
use tests::{GatewayFleet, Home, Product, Session, Setup, closed_port, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NANOS_PER_DOLLAR: i64 = 1_000_000_000;

/// A receiver of webhooks.
struct Receiver {
    listener: TcpListener,
}

/// A message, and the connection to answer it on.
struct Delivery {
    headers: BTreeMap<String, String>,
    body: String,
    stream: TcpStream,
}

// === impl Receiver ===

impl Receiver {
    async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn url(&self) -> String {
        format!("http://{}/hooks/T0KEN", self.listener.local_addr().unwrap())
    }

    /// Waits for the next message.
    async fn receive(&self) -> Delivery {
        let receiving = async {
            let (mut stream, _) = self.listener.accept().await.unwrap();
            let mut text = String::new();
            loop {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the message ends early: {text}");
                text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let (request, head) = head.split_once("\r\n").unwrap();
                assert_eq!(request, "POST /hooks/T0KEN HTTP/1.1");
                let headers = head.lines().map(|line| line.split_once(": ").unwrap());
                let headers: BTreeMap<_, _> =
                    headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
                if body.len() == headers["content-length"].parse::<usize>().unwrap() {
                    return Delivery { body: body.to_owned(), headers, stream };
                }
            }
        };
        with_timeout("a webhook", receiving).await
    }

    /// Waits for the next message and accepts it. Returns its type and its data.
    async fn accept(&self) -> (String, Value) {
        let delivery = self.receive().await;
        delivery.check_signature();
        let message: Value = serde_json::from_str(&delivery.body).unwrap();
        delivery.answer(204).await;
        (message["type"].as_str().unwrap().to_owned(), message["data"].clone())
    }

    /// Expects that the next message is of `kind` and about `subject`.
    async fn expect(&self, kind: &str, subject: (&str, &str)) -> Value {
        let (found, data) = self.accept().await;
        assert_eq!((found.as_str(), &data[subject.0]), (kind, &Value::from(subject.1)), "{data}");
        data
    }
}

impl Delivery {
    async fn answer(mut self, status: u16) {
        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
        self.stream.write_all(answer.as_bytes()).await.unwrap();
    }

    /// Computes the signature from the specification, with nothing of the gateway.
    fn check_signature(&self) {
        let header = |name: &str| self.headers[name].as_str();
        let signed =
            format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), self.body);
        let key = BASE64.decode(SECRET.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
        let padded = |pad: u8| -> Vec<u8> {
            (0..64).map(|at| key.get(at).copied().unwrap_or_default() ^ pad).collect()
        };
        let inner = Sha256::digest([padded(0x36), signed.into_bytes()].concat());
        let mac = Sha256::digest([padded(0x5c), inner.to_vec()].concat());
        assert_eq!(header("webhook-signature"), format!("v1,{}", BASE64.encode(&mac)));
        let now = SystemClock::new().now().as_second();
        let sent: i64 = header("webhook-timestamp").parse().unwrap();
        assert!((now - sent).abs() < 300, "{sent} is not now, {now}");
        assert_eq!(header("content-type"), "application/json");
    }
}

/// Sends all events to `url`; a balance below 2 dollars is low.
fn configure(url: &str) -> impl FnOnce(&mut Setup) {
    let config = WebhookConfig {
        urls: vec![WebhookUrl(url.parse().unwrap())],
        secret: SigningSecret::parse(SECRET).unwrap(),
        events: EventKind::ALL.into(),
        balance_below: domain::money::Nanos(2 * NANOS_PER_DOLLAR),
        expiring_within: Duration::from_hours(24),
    };
    |setup| setup.config.webhooks = Some(config)
}

async fn test(operator: &Session) -> Vec<v1::WebhookTestResult> {
    let request = v1::TestWebhooksRequest {};
    operator.maintenance().test_webhooks(request).await.unwrap().into_inner().results
}

#[tokio::test]
async fn an_event_is_signed_repeated_after_an_error_and_has_ids_only() {
    let receiver = Receiver::start().await;
    let product = Product::with(configure(&receiver.url())).await;
    let operator = product.operator().await;
    let alice = product.member("alice").await;
    let id = alice.account().await.id;
    // The trial credit is 5 dollars.
    operator.credit("alice", "-3.5").await;
    let first = receiver.receive().await;
    first.check_signature();
    let (message_id, body) = (first.headers["webhook-id"].clone(), first.body.clone());
    assert!(!body.contains("alice"), "{body}");
    first.answer(500).await;
    // The repetition is the same message.
    let second = receiver.receive().await;
    second.check_signature();
    assert_eq!((&second.headers["webhook-id"], &second.body), (&message_id, &body));
    second.answer(200).await;
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(message["type"], "balance_low");
    assert_eq!(message["data"]["account"], id);
    assert_eq!(message["data"]["balance_usd"], "1.5");
    assert_eq!(message["data"]["below_usd"], "2");
    let at: jiff::Timestamp = message["timestamp"].as_str().unwrap().parse().unwrap();
    assert!(at <= SystemClock::new().now());
}

/// The next message is always the expected one, so none is repeated in between.
#[tokio::test]
async fn each_crossing_is_reported_once_even_across_a_restart() {
    let receiver = Receiver::start().await;
    let home = Home::new(configure(&receiver.url()));
    let product = home.start().await;
    let operator = product.operator().await;
    let alice = product.member("alice").await;
    let id = alice.account().await.id;
    operator.credit("alice", "-4").await;
    receiver.expect("balance_low", ("account", &id)).await;
    operator.credit("alice", "-0.5").await;

    let seconds = SystemClock::new().now().as_second() + 12 * 60 * 60;
    let expires_at = prost_types::Timestamp { seconds, nanos: 0 };
    let key = alice.key_with(|key| key.expires_at = Some(expires_at)).await;
    receiver.expect("key_expiring", ("key", &key.id)).await;

    let home = product.stop().await;
    let product = home.start().await;
    let operator = product.operator().await;
    // The cap is used up by one answer.
    let alice = Session::with_token(&product.admin, "alice", &alice.token).await;
    let capped = alice.key_with(|key| key.spend_cap_usd = "0.00005".to_owned()).await;
    for _ in 0..3 {
        product.chat(&capped.secret, &question("sim-chat", "hi there")).answer().await;
    }
    let data = receiver.expect("spend_cap_near", ("key", &capped.id)).await;
    assert_eq!(
        (&data["account"], &data["spend_cap_usd"]),
        (&id.as_str().into(), &"0.00005".into())
    );

    // A balance that was high again, when another one was found to be low, is reported again.
    operator.credit("alice", "5").await;
    product.member("bob").await;
    operator.credit("bob", "-5").await;
    assert_eq!(receiver.accept().await.0, "balance_low");
    operator.credit("alice", "-5").await;
    receiver.expect("balance_low", ("account", &id)).await;
}

/// The store fails, as on a full disk, until the gateway takes no requests, and has room again afterwards.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_ledger_that_stops_and_resumes_is_reported() {
    let receiver = Receiver::start().await;
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("webhook.secret");
    std::fs::write(&secret, SECRET).unwrap();
    let data = dir.path().join("data");
    let gateway = Gateway::start(&data, |command| {
        command.arg("--webhook-urls").arg(receiver.url());
        command.arg("--webhook-secret-file").arg(&secret);
        command.args(["--webhook-events", "ledger_stopped,ledger_resumed"]);
    })
    .await;
    let key = rig::operator(&gateway, &data).await.key().await.secret;
    let ask = || {
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
        request.json(&question("sim-chat", "hi")).answer()
    };
    assert_eq!(ask().await.status, 200);
    gateway.limit_file_size(Some(256 * 1024));
    let stopping = async { while ask().await.status == 200 {} };
    with_timeout("a refusal", stopping).await;
    assert_eq!(ask().await.status, 503);
    let (kind, data) = receiver.accept().await;
    assert_eq!(kind, "ledger_stopped");
    let reason = data["reason"].as_str().unwrap();
    assert!(reason.contains("disk") || reason.contains("journal"), "{reason}");
    assert!(!reason.contains('/'), "it shows no path: {reason}");
    gateway.limit_file_size(None);
    assert_eq!(receiver.accept().await.0, "ledger_resumed");
    assert_eq!(ask().await.status, 200);
    gateway.stop().await;
}

/// Sends a test event, which the receiver accepts.
async fn test_through(operator: &Session, receiver: &Receiver) -> Vec<v1::WebhookTestResult> {
    let (results, (kind, _)) = tokio::join!(test(operator), receiver.accept());
    assert_eq!(kind, "test");
    results
}

#[tokio::test]
async fn an_upstream_that_fails_its_checks_is_down_until_it_answers() {
    let receiver = Receiver::start().await;
    let product = Product::with(configure(&receiver.url())).await;
    let operator = product.operator().await;
    let upstream = v1::Upstream {
        name: "gpu".to_owned(),
        url: closed_port().await,
        health_check: "/v1/models".to_owned(),
        health_check_interval_ms: Some(1_000),
        ..Default::default()
    };
    operator.add_upstream(upstream).await;
    receiver.expect("upstream_down", ("upstream", "gpu")).await;
    let url = Some(product.simulator_url().to_owned());
    let change = v1::UpdateUpstreamRequest { name: "gpu".to_owned(), url, ..Default::default() };
    operator.upstreams().update_upstream(change).await.unwrap();
    receiver.expect("upstream_up", ("upstream", "gpu")).await;
}

#[tokio::test]
async fn a_test_shows_the_answer_of_a_receiver_and_the_diagnosis_its_failure() {
    let receiver = Receiver::start().await;
    let product = Product::with(configure(&receiver.url())).await;
    let operator = product.operator().await;
    let accepted = test_through(&operator, &receiver).await;
    let origin = receiver.url().replace("/hooks/T0KEN", "");
    assert_eq!((&*accepted[0].endpoint, &*accepted[0].failure), (&*origin, ""));
    assert_eq!(diagnosed(&operator).await.0, Severity::Ok);

    let refusing = async { receiver.receive().await.answer(401).await };
    let (refused, ()) = tokio::join!(test(&operator), refusing);
    assert_eq!(refused[0].failure, "it answered HTTP 401");
    let (severity, finding) = diagnosed(&operator).await;
    assert_eq!(severity, Severity::Problem);
    assert!(finding.ends_with("failed: it answered HTTP 401"), "{finding}");

    drop(receiver);
    let unreachable = test(&operator).await;
    assert!(unreachable[0].failure.contains("refused"), "{unreachable:?}");
    let support = product.member("sue").await;
    let role = v1::Role::Support.into();
    let grant = v1::GrantRoleRequest { account: "sue".to_owned(), role };
    operator.accounts().grant_role(grant).await.unwrap();
    let refused = support.maintenance().test_webhooks(v1::TestWebhooksRequest {}).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::PermissionDenied);
}

#[tokio::test]
async fn a_gateway_without_webhooks_says_so() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let refused = operator.maintenance().test_webhooks(v1::TestWebhooksRequest {}).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(refused.message().contains("`webhook.urls`"), "{refused:?}");
}

/// Returns the severity and the finding of the diagnosis of webhooks.
async fn diagnosed(operator: &Session) -> (Severity, String) {
    let request = v1::DiagnoseRequest::default();
    let mut found = operator.diagnostics().diagnose(request).await.unwrap().into_inner();
    loop {
        let finding = found.message().await.unwrap().expect("webhooks are diagnosed");
        if finding.area() == DiagnosticArea::Webhooks {
            return (finding.severity(), finding.finding);
        }
    }
}

/// Two gateways see the same balance, and one of them reports it.
#[tokio::test]
async fn one_gateway_of_several_reports_a_condition() {
    let Some(fleet) = GatewayFleet::create("webhooks", 60).await else { return };
    let receiver = Receiver::start().await;
    let secret = fleet.scratch().join("webhook.secret");
    std::fs::write(&secret, SECRET).unwrap();
    let one = start(&fleet, "one", &receiver, &secret).await;
    let other = start(&fleet, "two", &receiver, &secret).await;
    let operator = fleet.operator("one", &one).await;
    let alice = Session::register(&other.admin, "alice", "correct horse battery alice").await;
    let id = alice.account().await.id;
    operator.credit("alice", "-4.5").await;
    receiver.expect("balance_low", ("account", &id)).await;
    // Both have asked the database when another condition is reported.
    let bob = Session::register(&one.admin, "bob", "correct horse battery bob").await;
    operator.credit("bob", "-4.5").await;
    receiver.expect("balance_low", ("account", &bob.account().await.id)).await;
    let operator = fleet.operator("two", &other).await;
    test_through(&operator, &receiver).await;
    drop((one, other));
    fleet.remove().await;
}

async fn start(fleet: &GatewayFleet, name: &str, receiver: &Receiver, secret: &Path) -> Gateway {
    fleet
        .start_with(name, |command| {
            command.arg("--webhook-urls").arg(receiver.url());
            command.arg("--webhook-secret-file").arg(secret);
        })
        .await
}
