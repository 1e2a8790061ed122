//! HTTP/1.1 and HTTP/2, with and without TLS, between a client and the gateway, and between the gateway and an
//! upstream. The transport changes neither answers nor records.

use std::sync::Arc;

use proto::v1::{self, RequestRecord, RequestStatus, UsageBasis};
use rustls::ClientConfig;
use serde_json::{Value, json};
use simulator::RequestEnd;
use tests::http::{Answer, Request, text_of};
use tests::{Certificate, Product, SecureSimulator, Session, priced_model, question, with_timeout};

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
    answers_are_the_same(false).await;
}

#[tokio::test]
async fn answers_and_records_are_the_same_over_http1_and_http2_with_tls() {
    answers_are_the_same(true).await;
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
    disconnecting_cancels(false).await;
}

#[tokio::test]
async fn disconnecting_cancels_the_request_upstream_with_tls() {
    disconnecting_cancels(true).await;
}
