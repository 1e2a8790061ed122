//! The last hour of one account, or of all of them together. Pure over `now`.

use std::time::Duration;

use jiff::Timestamp;

use super::ring::Ring;
use domain::latency::{self, BUCKETS, Percentiles};
use domain::record::RequestRecord;

/// Rates are over so many seconds, those that are over.
const RATE_SECONDS: usize = 10;
const HOUR: usize = 60;
const TTFT_MINUTES: usize = 5;
/// Error codes that are told apart: some are the upstreams' own.
const MAX_CODES: usize = 32;
const MAX_CODE_CHARS: usize = 64;
/// What all other codes are counted as.
const OTHER: &str = "other";

/// What is kept of an hour.
#[derive(Default)]
pub(super) struct TimeSeries {
    /// The second under way is one more.
    seconds: Ring<Count, { RATE_SECONDS + 1 }>,
    minutes: Ring<Count, HOUR>,
    ttft: Ring<Option<Box<Buckets>>, TTFT_MINUTES>,
    errors: Vec<Cause>,
}

/// Requests that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub requests: u64,
    /// How many of them failed, were refused or interrupted.
    pub errors: u64,
    /// Their tokens, input and output together.
    pub tokens: u64,
}

/// How often an error code was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// The code, or how the request ended where there was none.
    pub code: String,
    /// How often.
    pub count: u64,
    /// When it was last so.
    pub last_at: Timestamp,
}

/// What a series says.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficHistory {
    /// Requests that ended, per second, over the last ten.
    pub requests_per_second: f64,
    /// Their tokens, per second.
    pub tokens_per_second: f64,
    /// The last 60 minutes, oldest first; the last one is going on.
    pub minutes: Vec<Count>,
    /// From arrival to the first piece of the answer, over the last five minutes.
    pub ttft: Option<Percentiles>,
    /// What went wrong in the last hour, most frequent first.
    pub errors: Vec<ErrorCount>,
}

struct Buckets([u32; BUCKETS]);

struct Cause {
    code: String,
    counts: Ring<u64, HOUR>,
    last_at: Timestamp,
}

impl Default for Buckets {
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
            let buckets = self.ttft.at(minute).get_or_insert_default();
            let cases = &mut buckets.0[latency::bucket(ttft)];
            *cases = cases.saturating_add(1);
        }
        if record.status.is_error() {
            let code = record.error_code.as_deref().unwrap_or(record.status.as_str());
            let cause = self.cause(code, minute);
            *cause.counts.at(minute) += requests;
            let ended_at = record.started_at.saturating_add(record.duration);
            cause.last_at = cause.last_at.max(ended_at.unwrap_or(record.started_at));
        }
    }

    /// Returns what has been, as of `now`.
    #[expect(clippy::cast_precision_loss, reason = "rates are looked at, not added up")]
    pub(super) fn history(&self, now: Duration) -> TrafficHistory {
        let (second, minute) = (now.as_secs(), now.as_secs() / 60);
        let mut rate = Count::default();
        let over = self.seconds.until(second).take(RATE_SECONDS);
        over.flatten().for_each(|count| rate.add(*count));
        let per_second = |sum: u64| sum as f64 / RATE_SECONDS as f64;
        let mut ttft = [0; BUCKETS];
        for buckets in self.ttft.until(minute).flatten().flatten() {
            for (sum, cases) in ttft.iter_mut().zip(buckets.0) {
                *sum += u64::from(cases);
            }
        }
        let mut errors: Vec<_> =
            self.errors.iter().filter_map(|cause| cause.within(minute)).collect();
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

    /// Finds or makes the counts of a code. Those that nothing was counted under for an hour make room
    /// for it.
    fn cause(&mut self, code: &str, minute: u64) -> &mut Cause {
        let mut code: String = code.chars().take(MAX_CODE_CHARS).collect();
        let known = |errors: &[Cause], code: &str| errors.iter().position(|it| it.code == code);
        if known(&self.errors, &code).is_none() && self.errors.len() >= MAX_CODES {
            self.errors.retain(|cause| cause.within(minute).is_some());
            if self.errors.len() >= MAX_CODES {
                OTHER.clone_into(&mut code);
            }
        }
        let place = known(&self.errors, &code).unwrap_or_else(|| {
            let (counts, last_at) = (Ring::default(), Timestamp::MIN);
            self.errors.push(Cause { code, counts, last_at });
            self.errors.len() - 1
        });
        &mut self.errors[place]
    }
}

impl Cause {
    /// What was counted in the hour that ends with `minute`; `None` if nothing was.
    fn within(&self, minute: u64) -> Option<ErrorCount> {
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
