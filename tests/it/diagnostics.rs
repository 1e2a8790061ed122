//! The gateway's self-diagnosis and its remedies.

use std::os::unix::fs::PermissionsExt;

use proto::v1::credential::Source;
use proto::v1::{self, DiagnosticArea, Severity};
use tests::{Product, RawUpstream, closed_port, json_answer, with_timeout};

/// Returns all findings.
async fn diagnose(product: &Product, send_requests: bool) -> Vec<v1::DiagnoseResponse> {
    let operator = product.operator().await;
    let request = v1::DiagnoseRequest { send_requests };
    let mut found = operator.diagnostics().diagnose(request).await.unwrap().into_inner();
    let mut all = Vec::new();
    let gather = async {
        while let Some(finding) = found.message().await.unwrap() {
            all.push(finding);
        }
    };
    with_timeout("all findings", gather).await;
    all
}

/// Returns the findings for one area and subject.
fn of<'a>(
    found: &'a [v1::DiagnoseResponse],
    area: DiagnosticArea,
    subject: &str,
) -> Vec<(Severity, &'a str, &'a str)> {
    let chosen = found.iter().filter(|it| it.area() == area && it.subject.ends_with(subject));
    chosen.map(|it| (it.severity(), it.finding.as_str(), it.remedy.as_str())).collect()
}

#[tokio::test]
async fn a_healthy_gateway_has_no_problems() {
    // a certificate would be examined too
    let product = Product::on_http1(|_| {}).await;
    let found = diagnose(&product, false).await;
    assert!(found.iter().all(|it| it.gateway_time_ms > 0 && !it.finding.is_empty()), "{found:#?}");
    assert!(
        found.iter().all(|it| (it.severity() == Severity::Ok) == it.remedy.is_empty()),
        "{found:#?}"
    );
    // disk space and open files depend on the machine that runs this test
    let ours = found
        .iter()
        .filter(|it| !matches!(it.area(), DiagnosticArea::Disk | DiagnosticArea::Files));
    assert!(ours.clone().all(|it| it.severity() == Severity::Ok), "{found:#?}");
    let mut areas: Vec<_> = found.iter().map(v1::DiagnoseResponse::area).collect();
    areas.dedup();
    assert_eq!(
        areas,
        [
            DiagnosticArea::Version,
            DiagnosticArea::Clock,
            DiagnosticArea::Files,
            DiagnosticArea::Disk,
            DiagnosticArea::Secrets,
            DiagnosticArea::Database,
            DiagnosticArea::Ledger,
            DiagnosticArea::Upstream,
        ]
    );
    let simulator = of(&found, DiagnosticArea::Upstream, "simulator");
    assert_eq!(simulator, [(Severity::Ok, "it answers, and lists 2 models", "")]);
}

#[tokio::test]
async fn a_secret_file_readable_by_others_is_a_problem() {
    let product = Product::start().await;
    let token = product.home.data_dir().join("operator.token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let found = diagnose(&product, false).await;
    let remedy = format!("chmod 600 '{}'", token.display());
    assert_eq!(
        of(&found, DiagnosticArea::Secrets, "operator.token"),
        [(Severity::Problem, "others than its owner may use it (mode 644)", remedy.as_str())]
    );
    assert_eq!(of(&found, DiagnosticArea::Secrets, "seal.key")[0].0, Severity::Ok);
}

#[tokio::test]
async fn an_unreachable_upstream_is_a_problem_and_the_others_are_still_examined() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let (away, plain) = (closed_port().await, RawUpstream::start().await);
    operator.add_model_on("asked", &[&away, &plain.url]).await;
    let list = r#"{"object":"list","data":[{"id":"another-model"}]}"#;
    let (found, call) =
        tokio::join!(diagnose(&product, false), plain.answer(json_answer(200, list)));
    assert!(call.head.starts_with("GET /v1/models "), "{}", call.head);
    let [(severity, text, remedy)] = of(&found, DiagnosticArea::Upstream, "up-asked-0")[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(severity, Severity::Problem);
    assert!(text.starts_with("it does not list its models: it cannot be reached: "), "{text}");
    assert!(remedy.contains("ctl upstream update up-asked-0 --url"), "{remedy}");
    let [answers, missing] = of(&found, DiagnosticArea::Upstream, "up-asked-1")[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(answers, (Severity::Ok, "it answers, and lists 1 models", ""));
    assert_eq!(missing.0, Severity::Warning);
    assert!(
        missing.1.contains("`upstream-model`, on which model `asked` is deployed"),
        "{missing:?}"
    );
}

#[tokio::test]
async fn each_credential_of_an_upstream_is_tested() {
    let product = Product::start().await;
    let (operator, upstream) = (product.operator().await, RawUpstream::start().await);
    let source = |source| v1::Credential { source: Some(source) };
    let secret = |text: &str| source(Source::Secret(text.to_owned()));
    let request = v1::Upstream {
        name: "several".to_owned(),
        url: upstream.url.clone(),
        credentials: vec![secret("good"), source(Source::Env("NOT_SET".to_owned())), secret("bad")],
        ..Default::default()
    };
    operator.add_upstream(request).await;
    let answering = async {
        for _ in 0..2 {
            let mut call = upstream.call().await;
            let is_good = call.header("authorization") == Some("Bearer good");
            let answer = json_answer(if is_good { 200 } else { 401 }, r#"{"data":[]}"#);
            call.send(answer).await;
        }
    };
    let (found, ()) = tokio::join!(diagnose(&product, false), answering);
    let [good, bad, missing] = of(&found, DiagnosticArea::Upstream, "several")[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(good, (Severity::Ok, "it answers with credential 1, and lists 0 models", ""));
    assert_eq!(bad.0, Severity::Problem);
    assert!(bad.1.starts_with("it does not list its models with credential 3: "), "{bad:?}");
    assert_eq!(missing.0, Severity::Problem);
    assert!(missing.1.contains("credential 2: environment variable `NOT_SET`"), "{missing:?}");
}

#[tokio::test]
async fn a_test_request_measures_the_first_token_and_leaves_no_record() {
    let product = Product::start().await;
    product.serve_model("broken", product.simulator_url(), "sim-chat?status=500").await;
    let found = diagnose(&product, true).await;
    let simulator = of(&found, DiagnosticArea::Upstream, "simulator");
    assert_eq!(simulator.len(), 3, "its model list and its two models");
    for (severity, text, _) in &simulator[1..] {
        assert_eq!(*severity, Severity::Ok);
        assert!(text.contains("streams; its first token came after"), "{text}");
    }
    let broken = of(&found, DiagnosticArea::Upstream, "up-broken");
    let expected = "`sim-chat?status=500` (model `broken`) does not stream: it answered HTTP 500";
    assert_eq!(broken[1], (Severity::Problem, expected, "see the log of its server"));
    let request = v1::ListRequestsRequest::default();
    let listed = product.operator().await.usage().list_requests(request).await.unwrap();
    assert_eq!(listed.into_inner().requests, []);
}

#[tokio::test]
async fn the_certificate_of_an_https_upstream_is_examined() {
    let product = Product::start().await;
    let url = closed_port().await.replace("http://", "https://");
    let operator = product.operator().await;
    let upstream = v1::Upstream { name: "tls".into(), url, ..Default::default() };
    let request = v1::AddUpstreamRequest { upstream: Some(upstream) };
    operator.upstreams().add_upstream(request).await.unwrap();
    let found = diagnose(&product, false).await;
    let [(severity, text, remedy)] = of(&found, DiagnosticArea::Tls, "tls")[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(severity, Severity::Problem);
    assert!(text.starts_with("no TLS connection could be made: "), "{text}");
    assert!(remedy.contains("see which certificate `127.0.0.1:"), "{remedy}");
}
