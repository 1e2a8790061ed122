//! Counts of requests from their records, and the bounds on the number of series.

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use crate::catalogue;
use crate::metrics::text::{Format, Text};
use domain::id::{AccountId, KeyId, RequestId, UpstreamName};
use domain::record::ServedBy;
use domain::trace::RequestTrace;
use domain::usage::{Tokens, Usage, UsageBasis};

pub(in super::super) fn record(model: &str) -> RequestRecord {
    RequestRecord {
        id: RequestId(Uuid::nil()),
        account: AccountId(Uuid::nil()),
        key: KeyId::new("k"),
        endpoint: Endpoint::ChatCompletions,
        model: Some(ModelId::new(model)),
        deployment: Some(ServedBy { upstream: UpstreamName::new("u"), upstream_model: "m".into() }),
        stream: true,
        status: RequestStatus::Completed,
        http_status: Some(200),
        error_code: None,
        usage: Some(Usage {
            input: Tokens(30),
            cached: Some(Tokens(10)),
            output: Tokens(11),
            reasoning: None,
        }),
        basis: UsageBasis::Upstream,
        cost: Some(Nanos(1_500)),
        overrun: Nanos(1),
        price_version: None,
        started_at: Timestamp::UNIX_EPOCH,
        duration: Duration::from_secs(3),
        ttft: Some(Duration::from_secs(1)),
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    }
}

fn refused(model: Option<&str>, code: &str, count: u32) -> RequestRecord {
    RequestRecord {
        model: model.map(ModelId::new),
        deployment: None,
        status: RequestStatus::Rejected,
        http_status: Some(429),
        error_code: Some(code.to_owned()),
        usage: None,
        cost: Some(Nanos::ZERO),
        overrun: Nanos::ZERO,
        count: NonZeroU32::new(count).unwrap(),
        ..record("")
    }
}

/// Returns a catalogue with these models, each with the alias `alias-ID`.
fn catalogue(ids: impl Iterator<Item = String>) -> Catalogue {
    let seed = catalogue::simulated(Timestamp::UNIX_EPOCH);
    let models = ids.map(|id| {
        let aliases = vec![ModelId::new(format!("alias-{id}"))];
        domain::model::Model { id: ModelId::new(id), aliases, ..seed.models[0].clone() }
    });
    Catalogue::new(Vec::new(), models.collect(), seed.upstreams.clone())
}

fn encoded(metrics: &RequestMetrics, format: Format) -> String {
    let mut text = Text::new(format);
    metrics.encode(&mut Encoder::new(&mut text));
    text.finish()
}

/// Returns the samples, without those of histograms.
fn samples(metrics: &RequestMetrics) -> Vec<String> {
    let text = encoded(metrics, Format::Prometheus);
    let is_sample = |line: &&str| line.starts_with("tollgate_") && !line.contains("seconds");
    text.lines().filter(is_sample).map(str::to_owned).collect()
}

#[test]
fn requests_tokens_and_money_are_counted_by_model() {
    let metrics = RequestMetrics::new(0);
    let catalogue = catalogue(["a".to_owned()].into_iter());
    let invented = refused(Some("invented"), "model_not_found", 1);
    let records =
        [record("a"), record("a"), refused(Some("alias-a"), "rate_limit_exceeded", 5), invented];
    metrics.observe(&records, &catalogue);
    let list = RequestRecord { endpoint: Endpoint::Models, ..refused(None, "e", 1) };
    metrics.observe(&[list], &catalogue);
    let requests = "tollgate_requests_total{endpoint=";
    assert_eq!(
        samples(&metrics),
        [
            &format!(
                "{requests}\"chat.completions\",model=\"a\",status=\"completed\",http_status=\"2xx\"}} 2"
            ),
            &format!(
                "{requests}\"chat.completions\",model=\"a\",status=\"rejected\",http_status=\"4xx\",\
                 error_code=\"rate_limit_exceeded\"}} 5"
            ),
            &format!(
                "{requests}\"models\",status=\"rejected\",http_status=\"4xx\",error_code=\"e\"}} 1"
            ),
            &format!(
                "{requests}\"chat.completions\",model=\"unknown\",status=\"rejected\",\
                 http_status=\"4xx\",error_code=\"model_not_found\"}} 1"
            ),
            "tollgate_input_tokens_total{model=\"a\"} 60",
            "tollgate_cached_tokens_total{model=\"a\"} 20",
            "tollgate_output_tokens_total{model=\"a\"} 22",
            "tollgate_reasoning_tokens_total{model=\"a\"} 0",
            "tollgate_cost_usd_total{model=\"a\"} 0.000003",
            "tollgate_overrun_usd_total{model=\"a\"} 0.000000002",
        ]
    );
}

#[test]
fn times_and_tokens_have_the_names_of_the_conventions() {
    let metrics = RequestMetrics::new(0);
    let failed = RequestRecord { status: RequestStatus::Failed, usage: None, ..record("a") };
    metrics.observe(&[record("a"), failed], &catalogue(["a".to_owned()].into_iter()));
    let text = encoded(&metrics, Format::Prometheus);
    let labels = "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"tollgate\",gen_ai_request_model=\"a\"";
    for expected in [
        "tollgate_request_duration_seconds_sum{endpoint=\"chat.completions\"} 6".to_owned(),
        format!("gen_ai_server_request_duration_seconds_sum{{{labels}}} 3"),
        format!("gen_ai_server_request_duration_seconds_sum{{{labels},error_type=\"_OTHER\"}} 3"),
        format!("gen_ai_server_time_to_first_token_seconds_sum{{{labels}}} 1"),
        // Ten tokens after the first one in two seconds.
        format!("gen_ai_server_time_per_output_token_seconds_sum{{{labels}}} 0.2"),
        format!("gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type=\"input\"}} 30"),
        format!("gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type=\"output\"}} 11"),
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected} is not in {text}");
    }
}

#[test]
fn codes_that_may_be_secrets_or_text_are_no_labels() {
    let metrics = RequestMetrics::new(0);
    let long = "a".repeat(49);
    for code in ["sk-tg-d954a5ca9647", "the prompt", "Code", "", &long] {
        metrics.observe(&[refused(None, code, 1)], &Catalogue::default());
    }
    let samples = samples(&metrics);
    assert_eq!(samples.len(), 2, "{samples:?}");
    assert!(samples[0].ends_with("error_code=\"other\"} 4"), "{samples:?}");
}

/// Each model has all histograms and more error codes than are counted separately, and each request another key.
#[test]
fn ten_thousand_models_and_a_hundred_thousand_keys_do_not_grow_a_scrape_beyond_two_megabytes() {
    let metrics = RequestMetrics::new(MAX_TOP as usize);
    let name = |number: usize| format!("organization-name/model-name-{number:05}");
    let catalogue = catalogue((0..10_000).map(name));
    let code = |number: u8| format!("upstream_invalid_response_{}", char::from(b'a' + number));
    let mut number_of_owner = 0_u128;
    let mut owned = |record: RequestRecord| {
        number_of_owner += 1;
        let (account, key) =
            (AccountId(Uuid::from_u128(number_of_owner)), format!("{number_of_owner:016x}"));
        RequestRecord { account, key: KeyId::new(key), ..record }
    };
    for number in 0..10_000 {
        let model = name(number);
        let failed = RequestRecord { status: RequestStatus::Failed, ..record(&model) };
        let refusals = (0..26).map(|number| refused(Some(&model), &code(number), 1));
        let records = [record(&model), failed].into_iter().chain(refusals);
        metrics.observe(&records.map(&mut owned).collect::<Vec<_>>(), &catalogue);
        metrics.observe(&[refused(Some(&format!("invented {number}")), "e", 1)], &catalogue);
    }
    // As many as a model can have: one for each bucket of its histograms.
    for (number, step) in (0..64).flat_map(|number| (0..20).map(move |step| (number, step))) {
        let duration = Duration::from_millis(1 << step);
        let trace = Some(Box::new(RequestTrace::new(RequestId(Uuid::max()), None, duration)));
        let completed =
            RequestRecord { duration, ttft: Some(duration), trace, ..record(&name(number)) };
        let failed = RequestRecord { status: RequestStatus::Failed, ..completed.clone() };
        metrics.observe(&[completed, failed], &catalogue);
    }
    let text = encoded(&metrics, Format::OpenMetrics);
    // The other families take less than the rest of two megabytes.
    assert!(text.len() < 1_950_000, "{} bytes", text.len());
    let total = |family: &str| -> u64 {
        let of_family = text.lines().filter(|line| line.starts_with(family));
        of_family.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    for family in [
        "tollgate_requests_total{",
        "tollgate_key_requests_total{",
        "tollgate_account_requests_total{",
    ] {
        assert_eq!(
            total(family),
            10_000 * 29 + 64 * 20 * 2,
            "what has no series is counted with the others"
        );
        let series = text.lines().filter(|line| line.starts_with(family)).count();
        assert!(series <= 2_000, "{series}");
    }
}
