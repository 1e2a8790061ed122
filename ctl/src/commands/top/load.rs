//! The load of the gateway, computed from a sample of its traffic and the records of the last minute.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts of a minute and times in seconds are small"
)]

use std::collections::HashMap;
use std::time::Duration;

use prost_types::Timestamp;
use proto::v1::{BreakerState, RequestRecord, RequestStatus, UpstreamHealth, WatchTrafficResponse};
use serde::Serialize;

use super::super::{enum_name, percentiles, rfc3339};
use crate::output::Record;

/// The age of the oldest records that count, since their requests ended.
const WINDOW: Duration = Duration::from_mins(1);

/// The load, as printed.
#[derive(Serialize)]
pub(super) struct LoadRecord {
    pub(super) sampled_at: Option<String>,
    pub(super) in_flight: u64,
    /// Averaged over the last ten seconds, as the tokens.
    pub(super) requests_per_second: f64,
    pub(super) tokens_per_second: f64,
    /// Of the requests that ended in the window, as all that follows.
    pub(super) errors_per_minute: f64,
    /// The part of `errors_per_minute` that the gateway refused before it called an upstream.
    pub(super) refusals_per_minute: f64,
    pub(super) cost_usd_per_minute: f64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// The time that the records cover: less than a minute if there are more than a page.
    pub(super) window_seconds: f64,
    pub(super) models: Vec<ShareRecord>,
    pub(super) accounts: Vec<ShareRecord>,
    pub(super) upstreams: Vec<UpstreamRecord>,
}

/// The share of a model or an account, as part of a JSON document.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ShareRecord {
    pub(super) name: String,
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// The part of `errors` that the gateway refused before it called an upstream.
    pub(super) refusals: u64,
    pub(super) tokens: u64,
    pub(super) cost_usd: f64,
}

/// An upstream, as part of a JSON document.
#[derive(Serialize)]
pub(super) struct UpstreamRecord {
    pub(super) name: String,
    pub(super) breaker: Option<String>,
    pub(super) in_flight: u64,
    /// In the last five minutes, as the failures and the latency.
    pub(super) requests: u64,
    pub(super) failures: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

// === impl LoadRecord ===

impl LoadRecord {
    /// Computes the load from the requests that ended in the window. `requests` are in the order of their ends, newest
    /// first; if they are not complete, they cover the time back to the oldest end. Lists `rows` models and accounts.
    pub(super) fn of(
        sample: &WatchTrafficResponse,
        requests: &[RequestRecord],
        is_complete: bool,
        upstreams: Vec<UpstreamHealth>,
        rows: usize,
    ) -> Self {
        let age = |record: &RequestRecord| Some(seconds(sample.at)? - ended_at(record)?);
        let whole = WINDOW.as_secs_f64();
        // The end of a request without a duration is unknown.
        let covered = requests.iter().rev().filter(|it| it.duration_ms.is_some()).find_map(age);
        let window = covered.filter(|_| !is_complete).unwrap_or(whole).clamp(1.0, whole);
        let per_minute = 60.0 / window;
        let is_recent = |record: &&RequestRecord| age(record).is_none_or(|age| age <= whole);
        let requests: Vec<_> = requests.iter().filter(is_recent).collect();
        let total = ShareRecord::sum(String::new(), requests.iter().copied());
        let mut durations: Vec<_> = requests
            .iter()
            .filter(|it| it.deployment.is_some())
            .filter_map(|it| it.duration_ms)
            .collect();
        durations.sort_unstable_by(f64::total_cmp);
        Self {
            sampled_at: rfc3339(sample.at),
            in_flight: sample.in_flight,
            requests_per_second: sample.requests_per_second,
            tokens_per_second: sample.tokens_per_second,
            errors_per_minute: total.errors as f64 * per_minute,
            refusals_per_minute: total.refusals as f64 * per_minute,
            cost_usd_per_minute: total.cost_usd * per_minute,
            p50_ms: percentile(&durations, 50),
            p99_ms: percentile(&durations, 99),
            window_seconds: window,
            models: ranking(&requests, rows, |it| it.model.as_deref().unwrap_or("-")),
            accounts: ranking(&requests, rows, |it| &it.account),
            upstreams: upstreams.into_iter().map(UpstreamRecord::from).collect(),
        }
    }
}

/// Returns when the request ended, in seconds since 1970.
fn ended_at(record: &RequestRecord) -> Option<f64> {
    Some(seconds(record.started_at)? + record.duration_ms.unwrap_or_default() / 1e3)
}

fn seconds(time: Option<Timestamp>) -> Option<f64> {
    time.map(|time| time.seconds as f64 + f64::from(time.nanos) / 1e9)
}

/// Returns the names with the most requests, at most `rows`.
fn ranking<'a>(
    requests: &[&'a RequestRecord],
    rows: usize,
    name: impl Fn(&'a RequestRecord) -> &'a str,
) -> Vec<ShareRecord> {
    let mut by_name = HashMap::<_, Vec<_>>::new();
    for &record in requests {
        by_name.entry(name(record)).or_default().push(record);
    }
    let shares = by_name.into_iter();
    let mut shares: Vec<_> =
        shares.map(|(name, records)| ShareRecord::sum(name.to_owned(), records)).collect();
    shares.sort_unstable_by(|a, b| (b.requests, &a.name).cmp(&(a.requests, &b.name)));
    shares.truncate(rows);
    shares
}

/// Returns the value that `percent` of the sorted values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

// === impl ShareRecord ===

impl ShareRecord {
    fn sum<'a>(name: String, records: impl IntoIterator<Item = &'a RequestRecord>) -> Self {
        let mut share = Self { name, ..Self::default() };
        for record in records {
            let count = u64::from(record.count.max(1));
            share.requests += count;
            match record.status() {
                RequestStatus::Rejected => share.refusals += count,
                RequestStatus::Failed | RequestStatus::Interrupted => share.errors += count,
                _ => {}
            }
            let tokens = record.tokens.as_ref();
            share.tokens +=
                tokens.map_or(0, |it| it.input.unwrap_or_default() + it.output.unwrap_or_default());
            let cost = record.cost_usd.as_deref().and_then(|cost| cost.parse::<f64>().ok());
            share.cost_usd += cost.unwrap_or_default();
        }
        share.errors += share.refusals;
        share
    }
}

// === impl UpstreamRecord ===

impl From<UpstreamHealth> for UpstreamRecord {
    fn from(health: UpstreamHealth) -> Self {
        let [p50_ms, _, p99_ms] = percentiles(health.latency);
        let breaker = enum_name(health.breaker().as_str_name(), "BREAKER_STATE_");
        debug_assert!(breaker.is_some() || health.breaker() == BreakerState::Unspecified);
        Self {
            breaker,
            name: health.name,
            in_flight: health.in_flight,
            requests: health.requests,
            failures: health.failures,
            p50_ms,
            p99_ms,
        }
    }
}

impl Record for LoadRecord {
    const FIELDS: &'static [&'static str] = &[
        "sampled_at",
        "in_flight",
        "requests_per_second",
        "tokens_per_second",
        "errors_per_minute",
        "cost_usd_per_minute",
        "p50_ms",
        "p99_ms",
        "window_seconds",
        "models",
        "accounts",
        "upstreams",
        "refusals_per_minute",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "sampled_at",
        "in_flight",
        "requests_per_second",
        "tokens_per_second",
        "errors_per_minute",
        "cost_usd_per_minute",
        "p50_ms",
        "p99_ms",
        "window_seconds",
    ];
    const MIN_WIDTHS: &'static [(&'static str, usize)] = &[("sampled_at", 20)];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn record(model: &str, second: i64, duration_ms: f64, status: RequestStatus) -> RequestRecord {
        RequestRecord {
            account: "alice".to_owned(),
            model: Some(model.to_owned()),
            deployment: Some("u/m".to_owned()),
            started_at: Some(at(second)),
            duration_ms: Some(duration_ms),
            cost_usd: Some("0.5".to_owned()),
            status: status.into(),
            ..RequestRecord::default()
        }
    }

    #[test]
    fn rates_are_those_of_the_time_that_the_records_cover() {
        let requests = [
            record("b", 99, 3_000.0, RequestStatus::Failed),
            record("a", 94, 1_000.0, RequestStatus::Completed),
            record("a", 88, 2_000.0, RequestStatus::Completed),
        ];
        let load = |is_complete| {
            let sample =
                WatchTrafficResponse { at: Some(at(100)), ..WatchTrafficResponse::default() };
            LoadRecord::of(&sample, &requests, is_complete, Vec::new(), 1)
        };
        let whole = load(true);
        assert_eq!((whole.window_seconds, whole.errors_per_minute), (60.0, 1.0));
        assert_eq!((whole.p50_ms, whole.p99_ms), (Some(2_000.0), Some(3_000.0)));
        let [top] = &whole.models[..] else { panic!("one row") };
        assert_eq!((top.name.as_str(), top.requests, top.cost_usd), ("a", 2, 1.0));
        // There are older ones in this minute.
        let part = load(false);
        let rates = (part.window_seconds, part.errors_per_minute, part.cost_usd_per_minute);
        assert_eq!(rates, (10.0, 6.0, 9.0));
    }

    #[test]
    fn refusals_are_counted_apart_from_failures() {
        let status = [RequestStatus::Failed, RequestStatus::Rejected, RequestStatus::Cancelled];
        let mut requests = status.map(|status| record("a", 99, 100.0, status));
        requests[1].count = 7;
        let at = Some(at(100));
        let sample = WatchTrafficResponse { at, ..WatchTrafficResponse::default() };
        let load = LoadRecord::of(&sample, &requests, true, Vec::new(), 1);
        let share = &load.models[0];
        assert_eq!((share.requests, share.errors, share.refusals), (9, 8, 7));
        assert_eq!((load.errors_per_minute, load.refusals_per_minute), (8.0, 7.0));
    }

    #[test]
    fn requests_count_when_they_end() {
        let completed = RequestStatus::Completed;
        let requests = [
            record("quick", 999, 1_000.0, completed),
            record("long", 100, 890_000.0, completed),
            record("long", 940, 40_000.0, completed),
            record("over", 890, 49_000.0, completed),
        ];
        let load = |requests: &[_], is_complete| {
            let at = Some(at(1_000));
            let sample = WatchTrafficResponse { at, ..WatchTrafficResponse::default() };
            LoadRecord::of(&sample, requests, is_complete, Vec::new(), 5)
        };
        for is_complete in [true, false] {
            let load = load(&requests, is_complete);
            let names: Vec<_> =
                load.models.iter().map(|it| (it.name.as_str(), it.requests)).collect();
            assert_eq!(names, [("long", 2), ("quick", 1)]);
            assert_eq!((load.window_seconds, load.cost_usd_per_minute), (60.0, 1.5));
        }
        // The page ends with a request that ended ten seconds ago, and arrived long before.
        let part = load(&requests[..2], false);
        assert_eq!((part.window_seconds, part.cost_usd_per_minute), (10.0, 6.0));
    }

    #[test]
    fn a_gateway_without_requests_has_no_percentiles() {
        let load = LoadRecord::of(&WatchTrafficResponse::default(), &[], true, Vec::new(), 5);
        assert_eq!((load.p50_ms, load.cost_usd_per_minute), (None, 0.0));
        assert!(load.models.is_empty());
    }
}
