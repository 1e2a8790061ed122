//! The metrics of the semantic conventions of OpenTelemetry for generative AI, version 1.37.0.
//!
//! The gateway is the provider, because its clients call it. A request that failed has the `error_type` that the
//! conventions have for errors without one; `tollgate_requests_total` has their codes.

use super::encoder::Encoder;
use super::exemplars::TracedHistogram;
use domain::histogram::Histogram;
use domain::record::{RequestRecord, RequestStatus};

/// The bounds that the semantic conventions for generative AI advise.
const GEN_AI_DURATIONS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const GEN_AI_FIRST_TOKEN: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
const GEN_AI_OUTPUT_TOKEN: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5];
const GEN_AI_TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The metrics of one model.
#[derive(Clone)]
pub(super) struct GenAi {
    succeeded: TracedHistogram,
    failed: TracedHistogram,
    time_to_first_token: TracedHistogram,
    time_per_output_token: Histogram,
    input_tokens: Histogram,
    output_tokens: Histogram,
}

/// A histogram with or without exemplars.
enum AnyHistogram<'a> {
    Traced(&'a TracedHistogram),
    Plain(&'a Histogram),
}

/// The value of the label that distinguishes a histogram within its family, and the histogram.
type Part = (&'static str, fn(&GenAi) -> AnyHistogram<'_>);

/// Writes the metrics of models by their names.
pub(super) fn encode(encoder: &mut Encoder<'_>, models: &[(&str, &GenAi)]) {
    use AnyHistogram::{Plain, Traced};

    let mut write = |name, help, label: &'static str, parts: &[Part]| {
        let mut family = encoder.histogram(name, help);
        for (model, gen_ai) in models {
            for (value, histogram) in parts {
                let labels = &[
                    ("gen_ai_operation_name", "chat"),
                    ("gen_ai_provider_name", "tollgate"),
                    ("gen_ai_request_model", model),
                    (label, value),
                ];
                match histogram(gen_ai) {
                    Traced(histogram) if histogram.histogram().count() > 0 => {
                        family.traced_buckets(labels, histogram);
                    }
                    Plain(histogram) if histogram.count() > 0 => {
                        family.buckets(labels, histogram);
                    }
                    Traced(_) | Plain(_) => {}
                }
            }
        }
    };
    write(
        "gen_ai_server_request_duration_seconds",
        "Time from the arrival of a request to the end of its answer.",
        "error_type",
        &[("", |it| Traced(&it.succeeded)), ("_OTHER", |it| Traced(&it.failed))],
    );
    write(
        "gen_ai_server_time_to_first_token_seconds",
        "Time to the first token of a successful answer.",
        "",
        &[("", |it| Traced(&it.time_to_first_token))],
    );
    write(
        "gen_ai_server_time_per_output_token_seconds",
        "Time per token after the first of a successful stream.",
        "",
        &[("", |it| Plain(&it.time_per_output_token))],
    );
    write(
        "gen_ai_client_token_usage",
        "Tokens of a request.",
        "gen_ai_token_type",
        &[("input", |it| Plain(&it.input_tokens)), ("output", |it| Plain(&it.output_tokens))],
    );
}

// === impl GenAi ===

impl Default for GenAi {
    fn default() -> Self {
        Self {
            succeeded: TracedHistogram::new(GEN_AI_DURATIONS),
            failed: TracedHistogram::new(GEN_AI_DURATIONS),
            time_to_first_token: TracedHistogram::new(GEN_AI_FIRST_TOKEN),
            time_per_output_token: Histogram::new(GEN_AI_OUTPUT_TOKEN),
            input_tokens: Histogram::new(GEN_AI_TOKENS),
            output_tokens: Histogram::new(GEN_AI_TOKENS),
        }
    }
}

impl GenAi {
    /// Counts a request that was sent to an upstream.
    pub(super) fn observe(&mut self, record: &RequestRecord) {
        if let Some(usage) = &record.usage {
            self.input_tokens.observe(tokens(usage.input.0));
            self.output_tokens.observe(tokens(usage.output.0));
        }
        let duration = record.duration.as_secs_f64();
        if !matches!(record.status, RequestStatus::Completed | RequestStatus::Incomplete) {
            return self.failed.observe(duration, record);
        }
        self.succeeded.observe(duration, record);
        let Some(first) = record.ttft else { return };
        self.time_to_first_token.observe(first.as_secs_f64(), record);
        let later = record.usage.map_or(0, |usage| usage.output.0.saturating_sub(1));
        if record.stream && later > 0 {
            let generating = record.duration.saturating_sub(first).as_secs_f64();
            self.time_per_output_token.observe(generating / tokens(later));
        }
    }
}

/// Returns a number of tokens as a float.
fn tokens(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
