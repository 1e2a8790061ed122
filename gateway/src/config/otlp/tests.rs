//! Settings and variables of the export.

use super::*;

fn resolve(settings: OtlpSettings, variables: &[(&str, &str)]) -> Result<Option<OtlpConfig>> {
    settings.resolve_with(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        Ok(found.map(|(_, value)| (*value).to_owned()))
    })
}

fn to(endpoint: &str) -> OtlpSettings {
    OtlpSettings { endpoint: Some(endpoint.to_owned()), ..Default::default() }
}

#[test]
fn nothing_is_exported_without_an_endpoint() {
    assert!(resolve(OtlpSettings::default(), &[]).unwrap().is_none());
    assert!(resolve(to(""), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h")]).unwrap().is_none());
    assert!(resolve(to("http://h"), &[("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
}

#[test]
fn the_variables_of_opentelemetry_apply_where_there_is_no_setting() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, X=1"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_LOGS_EXPORTER", "none"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1500"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=a"),
        ("OTEL_SERVICE_NAME", "edge"),
    ];
    let config = resolve(OtlpSettings::default(), &variables).unwrap().unwrap();
    assert_eq!(config.signals, [Signal::Traces, Signal::Metrics]);
    assert_eq!(config.trace_sampler, Some(TraceSampler::new(0.25)));
    assert_eq!(config.metrics_interval, Duration::from_millis(1_500));
    assert_eq!(config.resource.last().unwrap().1, "edge");
    let shown = format!("{:?}", config.collector);
    assert!(shown.contains("Grpc") && shown.contains("api-key") && !shown.contains("a b"));
    let settings = OtlpSettings {
        protocol: Some(ProtocolSetting::HttpProtobuf),
        trace_ratio: Some(1.0),
        metrics_seconds: Some(2),
        signals: Some(vec![SignalSetting::Logs]),
        ..to("https://other/base/")
    };
    let config = resolve(settings, &variables).unwrap().unwrap();
    assert_eq!((config.signals, config.trace_sampler), (vec![Signal::Logs], None));
    assert_eq!(config.metrics_interval, Duration::from_secs(2));
    assert!(format!("{:?}", config.collector).contains("HttpProtobuf"));
}

#[test]
fn headers_are_secrets_of_a_setting_or_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("headers");
    std::fs::write(&file, "authorization=Bearer a=b,c\n\nX-Scope = 1\n").unwrap();
    let headers = headers_in(&file).unwrap();
    assert_eq!(headers["authorization"], "Bearer a=b,c");
    assert_eq!(headers["x-scope"], "1");
    let both = OtlpSettings {
        headers: Some("a=1".into()),
        headers_file: Some(file.clone()),
        ..to("http://h")
    };
    assert!(resolve(both, &[]).unwrap_err().to_string().contains("not both"));
    for secret in ["secret", "na me=secret", "name=sec\nret"] {
        let wrong = OtlpSettings { headers: Some(secret.into()), ..to("http://h") };
        let error = format!("{:#}", resolve(wrong, &[]).unwrap_err());
        assert!(error.contains("`otlp.headers`") && !error.contains("ret"), "{error}");
    }
    std::fs::write(&file, "secret").unwrap();
    let error = format!("{:#}", headers_in(&file).unwrap_err());
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn invalid_values_are_named() {
    for endpoint in ["collector:4317", "ftp://h", "http://u:secret@h", "http://h/?k=secret"] {
        let error = resolve(to(endpoint), &[]).unwrap_err().to_string();
        assert!(error.contains("`otlp.endpoint`") && !error.contains("secret"), "{error}");
    }
    for (settings, name) in [
        (OtlpSettings { trace_ratio: Some(1.5), ..to("") }, "`otlp.trace_ratio`"),
        (OtlpSettings { trace_ratio: Some(f64::NAN), ..to("") }, "`otlp.trace_ratio`"),
        (OtlpSettings { metrics_seconds: Some(0), ..to("") }, "`otlp.metrics_seconds`"),
        (OtlpSettings { ca_file: Some("/no-such".into()), ..to("https://h") }, "/no-such"),
    ] {
        let error = format!("{:#}", resolve(settings, &[]).unwrap_err());
        assert!(error.contains(name), "{error}");
    }
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1m"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a"),
    ] {
        let error = format!("{:#}", resolve(to("http://h"), &[(name, value)]).unwrap_err());
        assert!(error.contains(name), "{error}");
    }
}
