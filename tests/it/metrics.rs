//! The metrics of `metrics_listen`: they equal the ledger, and they contain neither secrets nor text of requests.

use std::net::SocketAddr;

use proto::v1;
use tests::drill::counters::{Counters, across_a_crash};
use tests::drill::rig::Rig;
use tests::http::{Answer, Request};
use tests::process::Gateway;
use tests::{Product, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Starts a gateway that serves its metrics.
async fn start() -> (Product, SocketAddr) {
    let local = "127.0.0.1:0".parse().ok();
    let product = Product::with(|setup| setup.config.metrics_listen = local).await;
    let metrics = product.metrics.unwrap();
    (product, metrics)
}

/// Returns the severity and the finding of the diagnosis of the metrics.
async fn diagnosed(product: &Product) -> (v1::Severity, String) {
    let request = v1::DiagnoseRequest::default();
    let operator = product.operator().await;
    let mut found = operator.diagnostics().diagnose(request).await.unwrap().into_inner();
    loop {
        let finding = found.message().await.unwrap().expect("the metrics are diagnosed");
        if finding.area() == v1::DiagnosticArea::Metrics {
            return (finding.severity(), finding.finding);
        }
    }
}

#[tokio::test]
async fn the_diagnosis_looks_at_the_scrapes() {
    let (product, metrics) = start().await;
    let (severity, finding) = diagnosed(&product).await;
    assert_eq!(
        (severity, &*finding),
        (v1::Severity::Warning, "they were not scraped since the start")
    );
    scrape(metrics, "text/plain").await;
    assert_eq!(diagnosed(&product).await.0, v1::Severity::Ok);
}

/// Regression test: eight connections without a request kept others from a scrape for as long as a head may take.
#[tokio::test]
async fn idle_connections_keep_nobody_from_a_scrape() {
    let (_product, metrics) = start().await;
    let mut oldest = TcpStream::connect(metrics).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..9 {
        idle.push(TcpStream::connect(metrics).await.unwrap());
    }
    // The gateway accepts in order: once the last one was served, it has seen all of them.
    assert_eq!(scrape(metrics, "text/plain").await.status, 200);
    let mut ended = [0];
    let read = with_timeout("the end of the idlest", oldest.read(&mut ended)).await;
    assert_eq!(read.unwrap_or_default(), 0);
    let mut first = idle.remove(0);
    let read = with_timeout("the end of the next one", first.read(&mut ended)).await;
    assert_eq!(read.unwrap_or_default(), 0);
    // The newest of them is still served.
    let mut newest = idle.pop().unwrap();
    newest
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: m\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    with_timeout("an answer", newest.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

async fn scrape(metrics: SocketAddr, accept: &str) -> Answer {
    Request::get(metrics, "/metrics").header("accept", accept).answer().await
}

async fn ask(product: &Product, key: &str, model: &str, text: &str) -> Answer {
    product.chat(key, &question(model, text)).answer().await
}

#[tokio::test]
async fn the_counters_equal_the_ledger_at_each_scrape() {
    let (product, metrics) = start().await;
    let member = product.member("alice").await;
    let key = member.key().await.secret;
    let operator = product.operator().await;
    for text in ["one", "two", "three"] {
        assert_eq!(ask(&product, &key, "sim-chat", text).await.status, 200);
        // A scrape waits for the records of requests that have ended.
        let scraped = Counters::scraped(metrics).await;
        assert_eq!(scraped, Counters::stored(&operator).await);
    }
    // Refusals beyond ten in a second share a record.
    for _ in 0..30 {
        assert_eq!(ask(&product, &key, "invented", "hi").await.status, 404);
    }
    let scraped = Counters::scraped(metrics).await;
    assert_eq!(scraped.requests, 33);
    assert_eq!(scraped, Counters::stored(&operator).await);
}

#[tokio::test]
async fn metrics_contain_no_secret_and_no_text_of_a_request() {
    let (product, metrics) = start().await;
    let key = product.member("alice").await.key().await;
    let prompt = "marmalade";
    assert_eq!(ask(&product, &key.secret, "sim-chat", prompt).await.status, 200);
    assert_eq!(ask(&product, &key.secret, "quince", prompt).await.status, 404);
    assert_eq!(ask(&product, "sk-tg-unknown", "sim-chat", prompt).await.status, 401);
    let answer = scrape(metrics, "*/*").await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let token = product.home.operator_token();
    for forbidden in ["sk-tg", &*key.secret, &key.id, &token, prompt, "quince", "alice"] {
        assert!(!text.contains(forbidden), "{forbidden} is in {text}");
    }
    for expected in [
        "tollgate_requests_total{endpoint=\"chat.completions\",model=\"sim-chat\",status=\"completed\",http_status=\"2xx\"} 1",
        "model=\"unknown\",status=\"rejected\",http_status=\"4xx\",error_code=\"model_not_found\"} 1",
        "tollgate_requests_in_flight 0",
        "tollgate_held_usd 0",
        "tollgate_ledger_writable 1",
        "tollgate_records_waiting 0",
        "tollgate_upstream_attempts_total{upstream=\"simulator\"} 1",
        "tollgate_upstream_failures_total{upstream=\"simulator\"} 0",
        "tollgate_upstream_breaker_open{upstream=\"simulator\"} 0",
        "tollgate_memory_bytes{kind=\"bodies\"} 0",
        "tollgate_upstream_connections{upstream=\"simulator\",state=\"idle\"}",
        "tollgate_upstream_connect_duration_seconds_count{upstream=\"simulator\"}",
        "tollgate_worker_delay_seconds_count",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    for positive in [
        "tollgate_balance_usd",
        "tollgate_journal_bytes",
        "tollgate_database_bytes",
        "tollgate_commit_duration_seconds_count",
    ] {
        assert!(value(positive) > 0.0, "{positive}");
    }
}

#[tokio::test]
async fn accounts_and_keys_have_series_only_if_an_operator_chooses_so() {
    let local = "127.0.0.1:0".parse().ok();
    let product = Product::with(|setup| {
        setup.config.metrics_listen = local;
        setup.config.metrics_accounts = 1;
    })
    .await;
    let (alice, bob) = (product.member("alice").await, product.member("bob").await);
    let (key, other) = (alice.key().await, bob.key().await);
    for secret in [&key.secret, &other.secret] {
        assert_eq!(ask(&product, secret, "sim-chat", "hi").await.status, 200);
    }
    let answer = scrape(product.metrics.unwrap(), "*/*").await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let account = alice.account().await.id;
    for expected in [
        format!("tollgate_account_requests_total{{account=\"{account}\"}} 1"),
        "tollgate_account_requests_total{account=\"other\"} 1".to_owned(),
        format!("tollgate_key_requests_total{{key=\"{}\"}} 1", key.id),
        "tollgate_key_requests_total{key=\"other\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected} is not in {text}");
    }
    assert!(!text.contains(&other.id) && !text.contains("alice"), "{text}");
}

#[tokio::test]
async fn each_format_has_its_media_type_and_other_paths_are_refused() {
    let (product, metrics) = start().await;
    let content_type =
        |answer: &Answer| answer.headers["content-type"].to_str().unwrap().to_owned();
    let prometheus = scrape(metrics, "text/plain").await;
    assert_eq!(content_type(&prometheus), "text/plain; version=0.0.4; charset=utf-8");
    let open_metrics = scrape(metrics, "application/openmetrics-text; version=1.0.0").await;
    assert!(content_type(&open_metrics).starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(open_metrics.body.ends_with(b"\n# EOF\n"));

    assert_eq!(Request::get(metrics, "/").answer().await.status, 404);
    let posted = Request::post(metrics, "/metrics").answer().await;
    assert_eq!((posted.status, posted.headers["allow"].to_str().unwrap()), (405, "GET, HEAD"));
    assert_eq!(product.get("/metrics").answer().await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_the_counters_have_what_the_new_process_served() {
    let mut rig = Rig::start().await;
    let (scraped, stored) = across_a_crash(&mut rig, 8, 100).await;
    assert!(scraped.requests >= 100, "{scraped:?}");
    assert_eq!(scraped, stored);
}

/// `.ci/observability` evaluates them with Prometheus.
#[tokio::test]
async fn the_rules_and_the_dashboard_name_metrics_that_exist() {
    let (_product, metrics) = start().await;
    let scraped = scrape(metrics, "text/plain").await;
    let scraped = String::from_utf8(scraped.body.to_vec()).unwrap();
    for text in [examples::PROMETHEUS_RULES, examples::GRAFANA_DASHBOARD] {
        let words = text
            .split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && !"_:".contains(c));
        let is_metric =
            |word: &&str| word.starts_with("tollgate_") || word.starts_with("gen_ai_server");
        let names: Vec<_> = words.filter(is_metric).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(scraped.contains(&format!("# TYPE {family} ")), "{name} is not exported");
        }
    }
}

/// Requests are counted while the database takes no records.
#[tokio::test]
async fn a_locked_database_does_not_stop_the_counters() {
    let dir = tempfile::tempdir().unwrap();
    let local = |command: &mut tokio::process::Command| {
        command.args(["--metrics-listen", "127.0.0.1:0"]);
    };
    let gateway = Gateway::start(dir.path(), local).await;
    let key = tests::drill::rig::operator(&gateway, dir.path()).await.key().await.secret;
    let database = rusqlite::Connection::open(dir.path().join("tollgate.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
        let answer = request.json(&question("sim-chat", "hi")).answer().await;
        assert_eq!(answer.status, 200);
    }
    let counting = async { while Counters::scraped(gateway.metrics()).await.requests < 3 {} };
    tests::with_timeout("the count of three requests", counting).await;
    drop(database);
    gateway.stop().await;
}
