//! The export over OTLP to a collector in this process: the spans of requests, metrics and log records; and that a
//! collector which does not take them costs requests nothing.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use gateway::config::{OtlpSettings, ProtocolSetting, SignalSetting};
use otlp_proto::metrics::v1::Metric;
use otlp_proto::metrics::v1::metric::Data;
use otlp_proto::metrics::v1::number_data_point::Value;
use otlp_proto::trace::v1::Span;
use proto::v1;
use serde_json::json;
use tests::collector::{Behaviour, Collector, attribute};
use tests::drill::rig;
use tests::http::Request;
use tests::process::Gateway;
use tests::{Product, RawUpstream, closed_port, json_answer, priced_model, question, with_timeout};
use tokio::task::JoinSet;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const PROMPT: &str = "marmalade";

/// Starts a gateway that exports to a collector.
async fn start(collector: &Collector, settings: OtlpSettings) -> Product {
    let local = "127.0.0.1:0".parse().ok();
    Product::with(|setup| {
        setup.config.otlp = collector.config(settings);
        setup.config.metrics_listen = local;
    })
    .await
}

fn traces(ratio: f64) -> OtlpSettings {
    OtlpSettings {
        signals: Some(vec![SignalSetting::Traces]),
        trace_ratio: Some(ratio),
        ..OtlpSettings::default()
    }
}

/// Returns the spans with this name.
fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn chat_answer() -> String {
    let answer = json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "Hello" } }],
        "usage": { "prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6 },
    });
    json_answer(200, &answer.to_string())
}

/// Over gRPC: the first deployment cannot be reached, the second one answers and gets its span as the parent.
#[tokio::test]
async fn the_span_of_a_request_has_each_attempt_below_it() {
    let collector = Collector::start(Behaviour::Accept).await;
    let settings = OtlpSettings {
        endpoint: Some(collector.grpc.clone()),
        protocol: Some(ProtocolSetting::Grpc),
        headers: Some("authorization=Bearer%20collector-token".into()),
        ..traces(0.0)
    };
    let product = start(&collector, settings).await;
    let (operator, upstream) = (product.operator().await, RawUpstream::start().await);
    let closed = closed_port().await;
    for (name, url) in [("closed", &closed), ("open", &upstream.url)] {
        let added = v1::Upstream { name: name.into(), url: url.clone(), ..Default::default() };
        operator.add_upstream(added).await;
    }
    operator.add_model(priced_model("asked", &[("closed", "first"), ("open", "second")])).await;
    let member = product.member("alice").await;
    let key = member.key().await.secret;
    let request = product.chat(&key, &question("asked", PROMPT));
    let request = request.header("traceparent", PARENT).header("tracestate", "a=1");
    let (answer, call) = tokio::join!(request.answer(), upstream.answer(chat_answer()));
    assert_eq!(answer.status, 200);

    let spans = collector.requests(1).await;
    let [server] = named(&spans, "POST /v1/chat/completions")[..] else { panic!("{spans:#?}") };
    assert_eq!(HEXLOWER.encode(&server.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(HEXLOWER.encode(&server.parent_span_id), "00f067aa0ba902b7");
    let record = member.record().await;
    let tokens = record.tokens.unwrap();
    for (name, expected) in [
        ("http.request.method", "POST"),
        ("http.route", "/v1/chat/completions"),
        ("http.response.status_code", "200"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "asked"),
        ("gen_ai.usage.input_tokens", &tokens.input.unwrap().to_string()),
        ("gen_ai.usage.output_tokens", &tokens.output.unwrap().to_string()),
        ("tollgate.request_id", &record.id),
        ("tollgate.status", "completed"),
        ("tollgate.upstream", "open"),
        ("tollgate.cost_usd", &record.cost_usd.unwrap()),
    ] {
        assert_eq!(attribute(&server.attributes, name), expected, "{name}");
    }
    let children: HashMap<_, _> = spans
        .iter()
        .filter(|span| span.parent_span_id == server.span_id)
        .map(|span| (&*span.name, span))
        .collect();
    let mut names: Vec<_> = children.keys().copied().collect();
    names.sort_unstable();
    assert_eq!(names, ["admission", "chat first", "chat second", "first_token", "settlement"]);
    let (failed, answering) = (children["chat first"], children["chat second"]);
    assert_eq!(attribute(&failed.attributes, "error.type"), "unreachable");
    assert_eq!(attribute(&answering.attributes, "gen_ai.provider.name"), "open");
    assert!(failed.status.is_some() && answering.status.is_none());
    assert!(failed.end_time_unix_nano <= answering.start_time_unix_nano);
    for span in &spans {
        assert_eq!(span.trace_id, server.trace_id, "{span:?}");
        assert!(span.start_time_unix_nano >= server.start_time_unix_nano, "{span:?}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        assert!(span.end_time_unix_nano <= server.end_time_unix_nano, "{span:?}");
    }
    // The upstream got the span of its attempt.
    let parent = HEXLOWER.encode(&answering.span_id);
    let expected = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{parent}-01");
    assert_eq!(call.header("traceparent"), Some(&*expected));
    assert_eq!(call.header("tracestate"), Some("a=1"));

    let received = collector.wait_for("the export", |_| true).await;
    assert_eq!(received.headers["authorization"], "Bearer collector-token");
    assert_eq!(attribute(&received.resource, "service.name"), "tollgate");
    let text = format!("{:?}", received.spans);
    for forbidden in [&*key, "sk-tg", PROMPT, "collector-token", "Hello"] {
        assert!(!text.contains(forbidden), "{forbidden} is in {text}");
    }
}

#[tokio::test]
async fn the_client_or_the_ratio_decides_which_requests_are_traced() {
    let collector = Collector::start(Behaviour::Accept).await;
    for (ratio, parent, expected) in [
        (0.0, None, None),
        (0.0, Some(UNSAMPLED), None),
        (1.0, Some(UNSAMPLED), None),
        (0.0, Some(PARENT), Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned())),
        // The trace has the id of its request.
        (1.0, None, Some(String::new())),
        (1.0, Some("invalid"), Some(String::new())),
    ] {
        let product = start(&collector, traces(ratio)).await;
        let key = product.member("alice").await.key().await.secret;
        let mut request = product.chat(&key, &question("sim-chat", "hi"));
        if let Some(parent) = parent {
            request = request.header("traceparent", parent);
        }
        let answer = request.answer().await;
        let id = answer.header("x-request-id").replace('-', "");
        product.stop().await;
        // A stop exports what waits.
        let received = collector.wait_for("nothing more", |_| true).await;
        let last = received.spans.iter().rev().find(|span| span.kind == 2);
        let expected = expected.map(|it| if it.is_empty() { id.clone() } else { it });
        let traced = last.filter(|span| {
            attribute(&span.attributes, "tollgate.request_id").replace('-', "") == id
        });
        let traced = traced.map(|span| HEXLOWER.encode(&span.trace_id));
        assert_eq!(traced, expected, "{ratio} {parent:?}");
    }
}

/// Without an exporter, and with one for requests that are not sampled.
#[tokio::test]
async fn a_trace_of_others_is_forwarded_unchanged() {
    let collector = Collector::start(Behaviour::Accept).await;
    for otlp in [None, collector.config(traces(1.0))] {
        let product = Product::with(|setup| setup.config.otlp = otlp).await;
        let upstream = RawUpstream::start().await;
        product.operator().await.add_model_on("asked", &[&upstream.url]).await;
        let key = product.member("alice").await.key().await.secret;
        let request = product.chat(&key, &question("asked", "hi"));
        let request = request.header("traceparent", UNSAMPLED).header("tracestate", "a=1,b=2");
        let (answer, call) = tokio::join!(request.answer(), upstream.answer(chat_answer()));
        assert_eq!(answer.status, 200);
        assert_eq!(call.header("traceparent"), Some(UNSAMPLED));
        assert_eq!(call.header("tracestate"), Some("a=1,b=2"));
    }
}

#[tokio::test]
async fn a_stream_and_a_refusal_have_spans() {
    let collector = Collector::start(Behaviour::Accept).await;
    let product = start(&collector, traces(1.0)).await;
    let key = product.member("alice").await.key().await.secret;
    let body = json!({ "model": "sim-chat", "input": PROMPT, "stream": true });
    assert_eq!(product.post("/v1/responses").bearer(&key).json(&body).answer().await.status, 200);
    assert_eq!(product.chat(&key, &question("quince", PROMPT)).answer().await.status, 404);
    let spans = collector.requests(2).await;
    let [stream] = named(&spans, "POST /v1/responses")[..] else { panic!("{spans:#?}") };
    assert_eq!(attribute(&stream.attributes, "tollgate.stream"), "true");
    let [refused] = named(&spans, "POST /v1/chat/completions")[..] else { panic!("{spans:#?}") };
    assert_eq!(attribute(&refused.attributes, "error.type"), "model_not_found");
    assert_eq!(refused.status, None, "a refusal is no failure of the server");
    let below = spans.iter().filter(|span| span.parent_span_id == refused.span_id);
    assert_eq!(below.count(), 0);
    // A name that the catalogue does not have is text of the client.
    assert!(!format!("{spans:?}").contains("quince"));
}

/// The first deployment is slow, and its attempt is cancelled once the second one has answered.
#[tokio::test]
async fn a_cancelled_attempt_is_a_span_without_an_error() {
    let collector = Collector::start(Behaviour::Accept).await;
    let product = start(&collector, traces(1.0)).await;
    let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&first.url, &second.url]).await;
    let hedged = v1::UpdateModelRequest {
        id: "asked".to_owned(),
        hedge_after_ms: Some(10),
        ..Default::default()
    };
    operator.models().update_model(hedged).await.unwrap();
    let key = product.member("alice").await.key().await.secret;
    let serve = async {
        let slow = first.call().await;
        (slow, second.answer(chat_answer()).await)
    };
    let (answer, calls) =
        tokio::join!(product.chat(&key, &question("asked", "hi")).answer(), serve);
    assert_eq!(answer.status, 200);
    let spans = collector.requests(1).await;
    let attempts: Vec<_> = spans.iter().filter(|span| span.kind == 3).collect();
    let [slow, fast] = attempts[..] else { panic!("{spans:#?}") };
    assert_eq!(attribute(&slow.attributes, "error.type"), "cancelled");
    assert_eq!(attribute(&fast.attributes, "error.type"), "");
    assert!(slow.status.is_none() && fast.status.is_none());
    for (span, call) in [(slow, &calls.0), (fast, &calls.1)] {
        let parent = call.header("traceparent").unwrap();
        assert!(parent.contains(&HEXLOWER.encode(&span.span_id)), "{parent}");
    }
}

/// The upstream breaks its stream off.
#[tokio::test]
async fn an_answer_that_breaks_off_is_the_error_of_its_attempt() {
    let collector = Collector::start(Behaviour::Accept).await;
    let (product, upstream) = (start(&collector, traces(1.0)).await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let breaking = async { upstream.begin_stream().await.finish().await };
    let (_, ()) = tokio::join!(product.chat(&key, &body).answer(), breaking);
    let spans = collector.requests(1).await;
    let failed: Vec<_> = spans.iter().filter(|span| span.status.is_some()).collect();
    let mut kinds: Vec<_> = failed.iter().map(|span| span.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [2, 3], "the server's and the client's: {spans:#?}");
    for span in failed {
        assert!(!attribute(&span.attributes, "error.type").is_empty(), "{span:?}");
    }
}

/// The client of the first stream disconnects, and an operator cancels the second one.
#[tokio::test]
async fn cancelled_requests_have_an_error_type_and_no_failure() {
    let collector = Collector::start(Behaviour::Accept).await;
    let (product, upstream) = (start(&collector, traces(1.0)).await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    for (count, expected) in [(1, "cancelled"), (2, "request_cancelled")] {
        let (answer, mut call) =
            tokio::join!(product.chat(&key, &body).send(), upstream.begin_stream());
        if expected == "cancelled" {
            drop(answer);
        } else {
            let request = v1::ListRequestsInFlightRequest::default();
            let listed = operator.usage().list_requests_in_flight(request).await.unwrap();
            let id = listed.into_inner().requests.remove(0).id;
            operator.usage().cancel_request(v1::CancelRequestRequest { id }).await.unwrap();
        }
        call.closed().await;
        let spans = collector.requests(count).await;
        for kind in [2, 3] {
            let span = spans.iter().rfind(|span| span.kind == kind).unwrap();
            assert_eq!(attribute(&span.attributes, "error.type"), expected, "{span:?}");
            assert_eq!(span.status, None, "nothing failed: {span:?}");
        }
    }
}

/// One connection, for which one request may wait: the one that waits has a span for it, the other one is refused.
#[tokio::test]
async fn the_wait_for_a_connection_is_a_span() {
    let collector = Collector::start(Behaviour::Accept).await;
    let (product, upstream) = (start(&collector, traces(1.0)).await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let bound = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        max_connections: Some(1),
        max_waiting: Some(1),
        ..Default::default()
    };
    operator.upstreams().update_upstream(bound).await.unwrap();
    let key = product.member("alice").await.key().await.secret;
    let ask = || product.chat(&key, &question("asked", "hi")).answer();
    let mut requests = JoinSet::new();
    requests.spawn(ask());
    let mut call = upstream.call().await;
    requests.spawn(ask());
    requests.spawn(ask());
    let refused = with_timeout("a refusal", requests.join_next()).await.unwrap().unwrap();
    assert_eq!(refused.status, 503);
    call.send(chat_answer()).await;
    call.finish().await;
    upstream.answer(chat_answer()).await;
    assert!(requests.join_all().await.iter().all(|answer| answer.status == 200));
    let spans = collector.requests(3).await;
    let [queue] = named(&spans, "queue")[..] else { panic!("{spans:#?}") };
    let attempts: Vec<_> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    let waited = attempts.iter().find(|span| span.span_id == queue.parent_span_id).unwrap();
    assert!(queue.end_time_unix_nano <= waited.end_time_unix_nano);
    let errors: Vec<_> =
        attempts.iter().map(|it| attribute(&it.attributes, "error.type")).collect();
    assert_eq!(errors.iter().filter(|error| *error == "overloaded").count(), 1, "{errors:?}");
}

/// Returns the sum of the data points of a metric.
fn sum(metrics: &[Metric], name: &str) -> f64 {
    let data = metrics.iter().find(|metric| metric.name == name).and_then(|it| it.data.as_ref());
    let Some(Data::Sum(sum)) = data else { return 0.0 };
    let value = |value: Option<Value>| match value {
        Some(Value::AsInt(value)) => value.to_string().parse().unwrap(),
        Some(Value::AsDouble(value)) => value,
        None => 0.0,
    };
    sum.data_points.iter().map(|point| value(point.value)).sum()
}

#[tokio::test]
async fn the_exported_metrics_equal_the_scrape_and_the_ledger() {
    let collector = Collector::start(Behaviour::Accept).await;
    let settings = OtlpSettings {
        signals: Some(vec![SignalSetting::Metrics]),
        metrics_seconds: Some(3_600),
        ..OtlpSettings::default()
    };
    let product = start(&collector, settings).await;
    let member = product.member("alice").await;
    let key = member.key().await.secret;
    for text in ["one", "two", "three"] {
        assert_eq!(product.chat(&key, &question("sim-chat", text)).answer().await.status, 200);
    }
    let records = member.records(3).await;
    product.stop().await;
    // The last export is at the end.
    let received = collector.wait_for("the metrics", |it| !it.metrics.is_empty()).await;
    let metrics = &received.metrics;
    let tokens = |of: fn(&v1::TokenCounts) -> Option<u64>| -> f64 {
        let counts = records.iter().filter_map(|record| of(record.tokens.as_ref()?));
        counts.sum::<u64>().to_string().parse().unwrap()
    };
    assert!((sum(metrics, "tollgate_requests_total") - 3.0).abs() < 0.1);
    assert!((sum(metrics, "tollgate_input_tokens_total") - tokens(|it| it.input)).abs() < 0.1);
    assert!((sum(metrics, "tollgate_output_tokens_total") - tokens(|it| it.output)).abs() < 0.1);
    let cost: f64 = records.iter().map(|it| it.cost_usd().parse::<f64>().unwrap()).sum();
    assert!((sum(metrics, "tollgate_cost_usd_total") - cost).abs() < 1e-10);
    let durations = metrics.iter().find(|it| it.name == "gen_ai.server.request.duration").unwrap();
    let Some(Data::Histogram(durations)) = &durations.data else { panic!("{durations:?}") };
    assert_eq!(durations.data_points.iter().map(|point| point.count).sum::<u64>(), 3);
}

/// The histograms of a scrape in OpenMetrics name the traces of their buckets.
#[tokio::test]
async fn the_durations_have_exemplars() {
    let collector = Collector::start(Behaviour::Accept).await;
    let product = start(&collector, traces(0.0)).await;
    let key = product.member("alice").await.key().await.secret;
    let request = product.chat(&key, &question("sim-chat", "hi"));
    assert_eq!(request.header("traceparent", PARENT).answer().await.status, 200);
    let metrics = product.metrics.unwrap();
    let scrape = async |accept| {
        Request::get(metrics, "/metrics").header("accept", accept).answer().await.text().to_owned()
    };
    let text = scrape("application/openmetrics-text; version=1.0.0").await;
    for family in ["tollgate_request_duration_seconds", "gen_ai_server_request_duration_seconds"] {
        let mut lines = text.lines().filter(|line| line.starts_with(&format!("{family}_bucket")));
        let exemplar = "# {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",span_id=\"";
        assert!(lines.any(|line| line.contains(exemplar)), "{family} in {text}");
    }
    assert!(!scrape("text/plain").await.contains("trace_id"));
}

/// The real binary: its events and its access lines, with the trace of each request.
#[tokio::test]
async fn the_events_of_the_log_are_exported() {
    let collector = Collector::start(Behaviour::Accept).await;
    let dir = tempfile::tempdir().unwrap();
    let endpoint = collector.http.clone();
    let gateway = Gateway::start(dir.path(), |command| {
        command.args(["--access-log", "on", "--otlp-endpoint", &endpoint]);
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collector-token");
    })
    .await;
    let operator = rig::operator(&gateway, dir.path()).await;
    let key = operator.key().await.secret;
    let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
    let answer = request.json(&question("sim-chat", PROMPT)).answer().await;
    assert_eq!(answer.status, 200);
    let token = operator.token.clone();
    drop(operator);
    let log = gateway.stop().await;
    let received = collector.wait_for("the log", |it| !it.log_records.is_empty()).await;
    let records = &received.log_records;
    let of_event = |name: &str| {
        let found = records.iter().find(|record| record.event_name == name);
        found.unwrap_or_else(|| panic!("{name} is not in {records:#?}"))
    };
    let access_line = of_event("request");
    assert_eq!(attribute(&access_line.attributes, "model"), "sim-chat");
    assert_eq!(attribute(&access_line.attributes, "status"), "completed");
    assert_eq!(attribute(&access_line.attributes, "request_id"), answer.header("x-request-id"));
    let server = received.spans.iter().find(|span| span.kind == 2).unwrap();
    assert_eq!((&access_line.trace_id, &access_line.span_id), (&server.trace_id, &server.span_id));
    assert_eq!(of_event("serving").severity_text, "INFO");
    assert!(!received.metrics.is_empty());
    let text = format!("{received:?}{log}");
    for forbidden in [&*key, "sk-tg-", &token, PROMPT] {
        assert!(!text.contains(forbidden), "{forbidden} is in {text}");
    }
    assert!(!log.contains("collector-token"), "{log}");
}

/// Returns the value of a sample of a scrape.
async fn scraped(product: &Product, sample: &str) -> u64 {
    let answer = Request::get(product.metrics.unwrap(), "/metrics").answer().await;
    let text = answer.text().to_owned();
    let line = text.lines().find(|line| line.starts_with(sample));
    line.unwrap_or_else(|| panic!("{sample} is not in {text}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// A collector that cannot be reached, refuses, or hangs: requests are served, failures are counted, a stop ends.
#[tokio::test]
async fn a_collector_that_takes_nothing_costs_requests_nothing() {
    let collector = Collector::start(Behaviour::Hang).await;
    for behaviour in [None, Some(Behaviour::Refuse), Some(Behaviour::Hang)] {
        let endpoint = match behaviour {
            Some(behaviour) => {
                collector.set_behaviour(behaviour);
                collector.http.clone()
            }
            None => closed_port().await,
        };
        let settings = OtlpSettings { endpoint: Some(endpoint), ..traces(1.0) };
        let product = start(&collector, settings).await;
        let key = product.member("alice").await.key().await.secret;
        for _ in 0..3 {
            assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
        }
        if behaviour != Some(Behaviour::Hang) {
            let failures = "tollgate_otlp_failures_total{signal=\"traces\"}";
            let failing = async { while scraped(&product, failures).await == 0 {} };
            with_timeout("a failure", failing).await;
        }
        product.stop().await;
    }
    assert!(collector.wait_for("exports", |it| it.exports >= 2).await.spans.is_empty());
}

/// Returns the severity and the text of the diagnosis of the collector.
async fn diagnosed(product: &Product) -> (v1::Severity, String) {
    let operator = product.operator().await;
    let request = v1::DiagnoseRequest::default();
    let mut found = operator.diagnostics().diagnose(request).await.unwrap().into_inner();
    loop {
        let finding = found.message().await.unwrap().expect("the collector is diagnosed");
        if finding.area() == v1::DiagnosticArea::Collector {
            return (finding.severity(), finding.finding);
        }
    }
}

#[tokio::test]
async fn the_diagnosis_looks_at_the_collector() {
    let collector = Collector::start(Behaviour::Accept).await;
    let product = start(&collector, traces(1.0)).await;
    let (severity, finding) = diagnosed(&product).await;
    assert_eq!(severity, v1::Severity::Ok, "{finding}");
    collector.set_behaviour(Behaviour::Refuse);
    let (severity, finding) = diagnosed(&product).await;
    assert_eq!(severity, v1::Severity::Problem);
    assert_eq!(finding, "traces cannot be exported: it answered HTTP 503");
}

/// After an interruption, the collector gets everything that waited.
#[tokio::test]
async fn spans_wait_while_the_collector_refuses_them() {
    let collector = Collector::start(Behaviour::Refuse).await;
    let product = start(&collector, traces(1.0)).await;
    let key = product.member("alice").await.key().await.secret;
    assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
    collector.wait_for("a refused export", |it| it.exports > 0).await;
    assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
    collector.set_behaviour(Behaviour::Accept);
    let spans = collector.requests(2).await;
    let exported = "tollgate_otlp_exported_total{signal=\"traces\"}";
    let all = spans.len() as u64;
    let counting = async { while scraped(&product, exported).await < all {} };
    with_timeout("the count", counting).await;
    assert_eq!(scraped(&product, "tollgate_otlp_dropped_total{signal=\"traces\"}").await, 0);
}
