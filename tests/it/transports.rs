//! HTTP/1.1 and HTTP/2, with and without TLS, between a client and the gateway, and between the gateway and an
//! upstream. The transport changes neither answers nor records.

use std::sync::Arc;

use proto::v1::{self, RequestRecord, RequestStatus, UsageBasis};
use rustls::ClientConfig;
use serde_json::{Value, json};
use simulator::RequestEnd;
use tests::http::{Answer, Request, text_of};
use tests::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame, frames,
};
use tests::{Certificate, Product, SecureSimulator, Session, priced_model, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A gateway with the models `MODEL-h1` and `MODEL-h2`, which differ in the HTTP version of their upstream.
struct TestContext {
    product: Product,
    alice: Session,
    key: String,
    /// The configuration of clients, by HTTP version; `None` without TLS.
    tls: Option<[Arc<ClientConfig>; 2]>,
    _upstreams: [SecureSimulator; 2],
}

/// The models and the simulator's names of them.
const MODELS: [(&str, &str); 5] = [
    ("plain", "sim-chat"),
    ("cut", "sim-chat?cut=3"),
    ("refused", "sim-chat?status=400"),
    ("endless", "sim-chat?words=100000&pace_ms=5"),
    ("large", "sim-chat?words=3000"),
];

impl TestContext {
    async fn start(has_tls: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certificate = Certificate::create();
        let product = Product::on_http1(|setup| {
            // The socket needs no TLS.
            let path = setup.config.data_dir.with_extension("sock");
            setup.config.admin_listen = gateway::config::AdminAddress::Unix(path);
            setup.config.tls = has_tls.then(|| certificate.write(dir.path()));
        })
        .await;
        if has_tls {
            let ready = Request::get(product.http, "/readyz");
            let ready = ready.tls(certificate.client_config("http/1.1")).answer().await;
            assert_eq!(ready.status, 200);
        }
        let operator = product.operator().await;
        let start = async |name: &str, protocol: &str| {
            let simulator = product.home.setup.simulator.clone();
            let upstream = SecureSimulator::start(simulator, &certificate, protocol).await;
            let (url, ca_certificates) = (upstream.url.clone(), certificate.pem.clone());
            let entry =
                v1::Upstream { name: name.into(), url, ca_certificates, ..Default::default() };
            operator.add_upstream(entry).await;
            for (model, served) in MODELS {
                operator
                    .add_model(priced_model(&format!("{model}-{name}"), &[(name, served)]))
                    .await;
            }
            upstream
        };
        let upstreams = [start("h1", "http/1.1").await, start("h2", "h2").await];
        let alice = product.member("alice").await;
        let key = alice.key().await.secret;
        let tls =
            has_tls.then(|| ["http/1.1", "h2"].map(|protocol| certificate.client_config(protocol)));
        Self { product, alice, key, tls, _upstreams: upstreams }
    }

    /// Returns a request over HTTP/1.1 or HTTP/2.
    fn request(&self, is_http2: bool, path: &str, body: &Value) -> Request {
        let request = self.product.post(path).bearer(&self.key).json(body);
        let request = if is_http2 { request.http2() } else { request };
        match &self.tls {
            Some(configs) => request.tls(configs[usize::from(is_http2)].clone()),
            None => request,
        }
    }

    /// Sends requests of all kinds to the upstream of one HTTP version.
    async fn answers(&self, is_http2: bool, upstream: &str) -> Vec<Answer> {
        let mut answers = Vec::new();
        for model in ["plain", "refused", "large"] {
            let model = format!("{model}-{upstream}");
            for stream in [false, true] {
                let mut chat = question(&model, "hi");
                chat["stream"] = stream.into();
                let response = json!({ "model": model, "input": "hi", "stream": stream });
                for (path, body) in [("/v1/chat/completions", chat), ("/v1/responses", response)] {
                    answers.push(self.request(is_http2, path, &body).answer().await);
                }
            }
        }
        answers
    }
}

/// Returns what an answer says apart from ids, times and the model's name.
fn content(answer: &Answer) -> (u16, String, Vec<String>) {
    let text = answer.text();
    let events: Vec<_> = text.split("\n\n").collect();
    let kinds = events.iter().map(|event| event.lines().next().unwrap_or_default());
    let mut kinds: Vec<_> =
        kinds.filter(|line| line.starts_with("event:")).map(str::to_owned).collect();
    kinds.dedup();
    let said = serde_json::from_str::<Value>(text).map_or_else(
        |_| text_of(&events),
        |value| {
            let message = &value["choices"][0]["message"]["content"];
            let output = &value["output"][0]["content"][0]["text"];
            format!("{message} {output} {}", value["error"]["code"])
        },
    );
    (answer.status, said, kinds)
}

/// Returns what a record says apart from ids, times and names.
fn facts(record: &RequestRecord) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        (record.endpoint.clone(), record.stream, record.status(), record.http_status),
        (record.error_code.clone(), record.tokens, record.usage_basis(), record.cost_usd.clone()),
        record.notes.clone(),
    )
}

async fn answers_are_the_same(has_tls: bool) {
    let context = TestContext::start(has_tls).await;
    let mut first: Option<(Vec<_>, Vec<_>)> = None;
    let mut recorded = 0;
    for (is_http2, upstream) in [(false, "h1"), (false, "h2"), (true, "h1"), (true, "h2")] {
        let answers = context.answers(is_http2, upstream).await;
        recorded += answers.len();
        let mut records = context.alice.records(recorded).await;
        let records = records.split_off(recorded - answers.len());
        let contents: Vec<_> = answers.iter().map(content).collect();
        let facts: Vec<_> = records.iter().map(facts).collect();
        let Some((contents_before, facts_before)) = &first else {
            assert_eq!(answers[0].status, 200, "{answers:?}");
            assert!(answers.last().unwrap().text().contains("response.completed"), "{answers:?}");
            first = Some((contents, facts));
            continue;
        };
        let transport = format!("HTTP/2: {is_http2}; upstream: {upstream}");
        for (content, before) in contents.iter().zip(contents_before) {
            assert_eq!(content, before, "{transport}");
        }
        for (facts, before) in facts.iter().zip(facts_before) {
            assert_eq!(facts, before, "{transport}");
        }
    }
}

#[tokio::test]
async fn answers_and_records_are_the_same_over_http1_and_http2_in_plaintext() {
    Box::pin(answers_are_the_same(false)).await;
}

#[tokio::test]
async fn answers_and_records_are_the_same_over_http1_and_http2_with_tls() {
    Box::pin(answers_are_the_same(true)).await;
}

/// The end of a connection to an upstream in the middle of an answer is an error. How much of the answer arrives
/// before depends on the transport.
#[tokio::test]
async fn an_answer_that_is_cut_off_is_an_error_over_every_transport() {
    let context = TestContext::start(true).await;
    let mut count = 0;
    for (is_http2, upstream) in [(false, "h1"), (false, "h2"), (true, "h1"), (true, "h2")] {
        let mut body = question(&format!("cut-{upstream}"), "hi");
        body["stream"] = true.into();
        let answer = context.request(is_http2, "/v1/chat/completions", &body).answer().await;
        assert!(
            answer.text().contains("\"error\"") && !answer.text().contains("[DONE]"),
            "{answer:?}"
        );
        count += 1;
        let record = context.alice.records(count).await.pop().unwrap();
        assert_eq!(record.status(), RequestStatus::Failed, "{record:?}");
    }
}

/// Serves one connection of HTTP/2: reads until `is_received`, then sends `frames`, and reads on.
async fn answer_with_frames(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    is_received: impl Fn(&[u8]) -> bool,
    frames: &[Vec<u8>],
) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = acceptor.accept(stream).await.unwrap();
    let mut received = Vec::new();
    while !is_received(&received) {
        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "it is closed");
    }
    stream.write_all(&frames.concat()).await.unwrap();
    stream.flush().await.unwrap();
    _ = stream.read_to_end(&mut received).await;
}

/// Regression test: a stream of HTTP/2 that its server reset without an error passed as complete. Only the rest of a
/// request that is refused may be reset so.
#[tokio::test]
async fn an_http2_stream_that_is_reset_without_an_error_is_cut_off() {
    let certificate = Certificate::create();
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let operator = product.operator().await;
    let begin = |status: u8, body: &[u8], flags| {
        let settings = frame(SETTINGS, 0, 0, &[]);
        let head = frame(HEADERS, END_HEADERS, 1, &[status]);
        let reset = frame(RST_STREAM, 0, 1, &0_u32.to_be_bytes());
        [settings, head, frame(DATA, flags, 1, body), reset]
    };
    // The `:status` of 200 and of 400, from the static table of HPACK.
    let events = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let refusal = br#"{"error":{"message":"too long for it","type":"invalid_request_error"}}"#;
    let cut = begin(0x88, events, 0);
    let refused = begin(0x8c, refusal, END_STREAM);
    let has_body = |received: &[u8]| received.ends_with(b"}");
    let has_head = |received: &[u8]| {
        received.len() > PREFACE.len()
            && frames(&received[PREFACE.len()..]).iter().any(|frame| frame.kind == HEADERS)
    };
    // A request that is longer than the initial window cannot be sent whole.
    let long = "long ".repeat(20_000);
    for (name, text, is_received, answer, status, expected) in [
        ("cut", "hi", &has_body as &(dyn Fn(&[u8]) -> bool + Sync), &cut, 200, "\"error\""),
        ("refused", &*long, &has_head, &refused, 400, "too long for it"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
        let (name, ca_certificates) = (name.to_owned(), certificate.pem.clone());
        let entry = v1::Upstream { name: name.clone(), url, ca_certificates, ..Default::default() };
        operator.add_upstream(entry).await;
        operator.add_model(priced_model(&name, &[(&name, "such")])).await;
        let mut body = question(&name, text);
        body["stream"] = true.into();
        let acceptor = certificate.acceptor("h2");
        let serving = answer_with_frames(listener, acceptor, is_received, answer);
        let answer = tokio::select! {
            answer = product.chat(&key, &body).answer() => answer,
            () = serving => unreachable!("the gateway keeps the connection"),
        };
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text().contains(expected), "{answer:?}");
        assert!(!answer.text().contains("[DONE]"), "{answer:?}");
    }
}

/// Regression test: the HTTP/2 connection of a request that was not answered in time got the next requests, too, and its
/// server could flood it until it was dropped.
#[tokio::test]
async fn an_http2_connection_that_does_not_answer_in_time_gets_no_more_requests() {
    let certificate = Certificate::create();
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let operator = product.operator().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let entry = v1::Upstream {
        name: "silent".to_owned(),
        url: format!("https://localhost:{}/v1", listener.local_addr().unwrap().port()),
        ca_certificates: certificate.pem.clone(),
        deadlines: Some(v1::Deadlines { first_byte_ms: Some(500), ..Default::default() }),
        ..Default::default()
    };
    operator.add_upstream(entry).await;
    operator.add_model(priced_model("asked", &[("silent", "such")])).await;
    let acceptor = certificate.acceptor("h2");
    let request = || product.chat(&key, &question("asked", "hi")).answer();
    let accept = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"}") {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "it is closed");
        }
        stream
    };
    let (answer, _first) = tokio::join!(request(), accept);
    assert_eq!(answer.status, 504, "{answer:?}");
    assert_eq!(request().await.status, 504);
    with_timeout("a second connection", listener.accept()).await.unwrap();
}

/// A client that disconnects in the middle of an answer ends the request upstream.
async fn disconnecting_cancels(has_tls: bool) {
    let context = TestContext::start(has_tls).await;
    let truth = context.product.home.setup.simulator.truth().clone();
    let mut count = 0;
    for (is_http2, upstream) in [(false, "h1"), (false, "h2"), (true, "h1"), (true, "h2")] {
        let mut body = question(&format!("endless-{upstream}"), "hi");
        body["stream"] = true.into();
        let mut answer = context.request(is_http2, "/v1/chat/completions", &body).send().await;
        answer.event().await.unwrap();
        drop(answer);
        count += 1;
        let record = context.alice.records(count).await.pop().unwrap();
        assert_eq!(record.status(), RequestStatus::Cancelled, "{record:?}");
        assert_eq!(record.usage_basis(), UsageBasis::Counted, "{record:?}");
        let ended = async {
            while truth.entries().last().and_then(|entry| entry.end) != Some(RequestEnd::Gone) {
                tokio::task::yield_now().await;
            }
        };
        with_timeout("the end of the request upstream", ended).await;
    }
}

#[tokio::test]
async fn disconnecting_cancels_the_request_upstream_in_plaintext() {
    Box::pin(disconnecting_cancels(false)).await;
}

#[tokio::test]
async fn disconnecting_cancels_the_request_upstream_with_tls() {
    Box::pin(disconnecting_cancels(true)).await;
}
