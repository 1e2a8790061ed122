//! `ctl traffic`: current traffic of the gateway, once or refreshed until Ctrl-C.

mod render;

use std::pin::pin;

use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::{ErrorCount, MinuteTraffic, WatchTrafficRequest, WatchTrafficResponse};
use serde::Serialize;

use super::{percentiles, rfc3339};
use crate::Shell;
use crate::cli::traffic::Traffic;
use crate::error::{Exit, Failure};
use crate::output::{Format, Record, StreamState};

/// A sample of the traffic, as printed.
#[derive(Serialize)]
struct TrafficRecord {
    sampled_at: Option<String>,
    in_flight: u64,
    requests_per_second: f64,
    tokens_per_second: f64,
    ttft_p50_ms: Option<f64>,
    ttft_p90_ms: Option<f64>,
    ttft_p99_ms: Option<f64>,
    /// The last hour, oldest first.
    minutes: Vec<MinuteRecord>,
    /// The errors of that hour, most frequent first.
    errors: Vec<ErrorRecord>,
}

/// The traffic of a minute, as part of a JSON document.
#[derive(Serialize)]
struct MinuteRecord {
    requests: u64,
    errors: u64,
    tokens: u64,
}

/// The number of occurrences of an error, as part of a JSON document.
#[derive(Serialize)]
struct ErrorRecord {
    code: String,
    count: u64,
    last_at: Option<String>,
}

/// Runs `ctl traffic`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Traffic) -> Result<(), Failure> {
    if input.watch && shell.output.format() == Format::Json {
        return Err(Failure::usage("endless output cannot be one JSON document")
            .advise("use -o jsonl, which prints an object per line"));
    }
    let account = input.account.unwrap_or_default();
    let mut client = TrafficServiceClient::new(shell.connect().await?);
    let request = WatchTrafficRequest { account, interval_ms: input.interval_ms };
    let mut answers = client.watch_traffic(request).await?.into_inner();
    let mut printed = StreamState::default();
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    loop {
        let answer = tokio::select! {
            answer = answers.message() => answer?,
            _ = &mut interrupt => return Ok(()),
        };
        let Some(answer) = answer else {
            return Err(Failure::new(Exit::Unavailable, "the gateway closed the stream"));
        };
        let traffic = TrafficRecord::from(answer);
        if !input.watch {
            return show(shell, &traffic);
        }
        match (shell.output.format(), shell.output.width()) {
            // Clears the screen, so that each sample replaces the previous one.
            (Format::Table, Some(_)) => {
                shell.output.text("\u{1b}[H\u{1b}[J")?;
                show(shell, &traffic)?;
                shell.output.flush()?;
            }
            _ => shell.output.append(&[traffic], &mut printed)?,
        }
    }
}

fn show(shell: &mut Shell<'_>, traffic: &TrafficRecord) -> Result<(), Failure> {
    match shell.output.format() {
        Format::Table if !shell.output.is_quiet() => {
            let text = render::render(traffic, &shell.output);
            shell.output.text(&text)
        }
        _ => shell.output.one(traffic),
    }
}

// === impl TrafficRecord ===

impl From<WatchTrafficResponse> for TrafficRecord {
    fn from(answer: WatchTrafficResponse) -> Self {
        let [ttft_p50_ms, ttft_p90_ms, ttft_p99_ms] = percentiles(answer.ttft);
        Self {
            sampled_at: rfc3339(answer.at),
            in_flight: answer.in_flight,
            requests_per_second: answer.requests_per_second,
            tokens_per_second: answer.tokens_per_second,
            ttft_p50_ms,
            ttft_p90_ms,
            ttft_p99_ms,
            minutes: answer.minutes.into_iter().map(MinuteRecord::from).collect(),
            errors: answer.errors.into_iter().map(ErrorRecord::from).collect(),
        }
    }
}

impl From<MinuteTraffic> for MinuteRecord {
    fn from(minute: MinuteTraffic) -> Self {
        let MinuteTraffic { requests, errors, tokens } = minute;
        Self { requests, errors, tokens }
    }
}

impl From<ErrorCount> for ErrorRecord {
    fn from(error: ErrorCount) -> Self {
        Self { code: error.code, count: error.count, last_at: rfc3339(error.last_at) }
    }
}

impl Record for TrafficRecord {
    const FIELDS: &'static [&'static str] = &[
        "sampled_at",
        "in_flight",
        "requests_per_second",
        "tokens_per_second",
        "ttft_p50_ms",
        "ttft_p90_ms",
        "ttft_p99_ms",
        "minutes",
        "errors",
    ];
    /// All fields except the lists.
    const COLUMNS: &'static [&'static str] = Self::FIELDS.split_at(7).0;
    const MIN_WIDTHS: &'static [(&'static str, usize)] = &[("sampled_at", 20)];
}
