//! Statistics of the last hour, for one account or in total. Pure over `now`, the monotonic time.

use std::time::Duration;

use jiff::Timestamp;

use super::ring::Ring;
use domain::latency::{self, BUCKETS, Percentiles};
use domain::record::RequestRecord;

/// The number of completed seconds that rates are averaged over.
const RATE_SECONDS: usize = 10;
const HISTORY_MINUTES: usize = 60;
const TTFT_MINUTES: usize = 5;
/// The maximum number of distinct error codes. Bounded, because some codes come from upstreams.
const MAX_CODES: usize = 32;
const MAX_CODE_CHARS: usize = 64;
/// The code for errors beyond `MAX_CODES`.
const OTHER_CODE: &str = "other";

/// The counters of the last hour.
#[derive(Default)]
pub(super) struct TimeSeries {
    /// The completed seconds and the current one.
    seconds: Ring<Count, { RATE_SECONDS + 1 }>,
    minutes: Ring<Count, HISTORY_MINUTES>,
    ttft: Ring<Option<Box<LatencyHistogram>>, TTFT_MINUTES>,
    errors: Vec<ErrorSeries>,
}

/// Counts of ended requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests that failed, were refused or interrupted.
    pub errors: u64,
    /// Their tokens, input and output together.
    pub tokens: u64,
}

/// The number of errors with one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// The error code; the request's status if it has none.
    pub code: String,
    /// The number of errors in the last hour.
    pub count: u64,
    /// The end of the latest such request.
    pub last_at: Timestamp,
}

/// Statistics of ended requests.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficHistory {
    /// Ended requests per second, over the last ten seconds.
    pub requests_per_second: f64,
    /// Tokens of ended requests per second, over the last ten seconds.
    pub tokens_per_second: f64,
    /// The last 60 minutes, oldest first, including the current one.
    pub minutes: Vec<Count>,
    /// The time from arrival to the first token, over the last five minutes.
    pub ttft: Option<Percentiles>,
    /// The errors of the last hour, most frequent first.
    pub errors: Vec<ErrorCount>,
}

struct LatencyHistogram([u32; BUCKETS]);

struct ErrorSeries {
    code: String,
    counts: Ring<u64, HISTORY_MINUTES>,
    last_at: Timestamp,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

// === impl TimeSeries ===

impl TimeSeries {
    /// Counts the requests of a record, which have ended by `now`.
    pub(super) fn record_ended(&mut self, record: &RequestRecord, now: Duration) {
        let (second, minute) = (now.as_secs(), now.as_secs() / 60);
        let tokens = record.usage.map_or(0, |usage| usage.total().0);
        let requests = u64::from(record.count.get());
        let errors = if record.status.is_error() { requests } else { 0 };
        let count = Count { requests, errors, tokens };
        self.seconds.at(second).add(count);
        self.minutes.at(minute).add(count);
        if let Some(ttft) = record.ttft {
            let histogram = self.ttft.at(minute).get_or_insert_default();
            let cases = &mut histogram.0[latency::bucket(ttft)];
            *cases = cases.saturating_add(1);
        }
        if record.status.is_error() {
            let code = record.error_code.as_deref().unwrap_or(record.status.as_str());
            let series = self.series(code, minute);
            *series.counts.at(minute) += requests;
            let ended_at = record.started_at.saturating_add(record.duration);
            series.last_at = series.last_at.max(ended_at.unwrap_or(record.started_at));
        }
    }

    /// Returns the statistics as of `now`.
    #[expect(clippy::cast_precision_loss, reason = "rates are for display and not summed")]
    pub(super) fn history(&self, now: Duration) -> TrafficHistory {
        let (second, minute) = (now.as_secs(), now.as_secs() / 60);
        let mut rate = Count::default();
        let completed = self.seconds.until(second).take(RATE_SECONDS);
        completed.flatten().for_each(|count| rate.add(*count));
        let per_second = |sum: u64| sum as f64 / RATE_SECONDS as f64;
        let mut ttft = [0; BUCKETS];
        for histogram in self.ttft.until(minute).flatten().flatten() {
            for (sum, cases) in ttft.iter_mut().zip(histogram.0) {
                *sum += u64::from(cases);
            }
        }
        let mut errors: Vec<_> =
            self.errors.iter().filter_map(|series| series.error_count(minute)).collect();
        errors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.code.cmp(&b.code)));
        TrafficHistory {
            requests_per_second: per_second(rate.requests),
            tokens_per_second: per_second(rate.tokens),
            minutes: self
                .minutes
                .until(minute)
                .map(|count| count.copied().unwrap_or_default())
                .collect(),
            ttft: Percentiles::of(&ttft),
            errors,
        }
    }

    /// Finds or creates the series of a code. If all are in use, replaces codes without an error in
    /// the last hour; falls back to `OTHER_CODE`.
    fn series(&mut self, code: &str, minute: u64) -> &mut ErrorSeries {
        let mut code: String = code.chars().take(MAX_CODE_CHARS).collect();
        let position =
            |errors: &[ErrorSeries], code: &str| errors.iter().position(|it| it.code == code);
        if position(&self.errors, &code).is_none() && self.errors.len() >= MAX_CODES {
            self.errors.retain(|series| series.error_count(minute).is_some());
            if self.errors.len() >= MAX_CODES {
                OTHER_CODE.clone_into(&mut code);
            }
        }
        let index = position(&self.errors, &code).unwrap_or_else(|| {
            let (counts, last_at) = (Ring::default(), Timestamp::MIN);
            self.errors.push(ErrorSeries { code, counts, last_at });
            self.errors.len() - 1
        });
        &mut self.errors[index]
    }
}

impl ErrorSeries {
    /// Returns the count of the hour that ends with `minute`; `None` if it is zero.
    fn error_count(&self, minute: u64) -> Option<ErrorCount> {
        let count = self.counts.until(minute).flatten().sum();
        let (code, last_at) = (self.code.clone(), self.last_at);
        (count > 0).then_some(ErrorCount { code, count, last_at })
    }
}

impl Count {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}
