//! Statistics of the last hour, for one account or in total. Pure over `now`, the monotonic time.

use std::time::Duration;

use jiff::Timestamp;

use super::figures::Figures;
use super::ring::Ring;
use domain::latency::{self, BUCKETS};
use domain::record::RequestRecord;
use domain::traffic::{Count, ErrorCount, MinuteFigures};

/// The number of completed seconds that rates are averaged over.
pub(super) const RATE_SECONDS: usize = 10;
pub(super) const HISTORY_MINUTES: usize = 60;
pub(super) const TTFT_MINUTES: usize = 5;
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

    /// Returns the figures as of `now`.
    pub(super) fn figures(&self, now: Duration) -> Figures {
        let (second, minute) = (now.as_secs(), now.as_secs() / 60);
        let mut figures = Figures::default();
        figures.recent = self.recent(second);
        for (sum, count) in figures.minutes.iter_mut().zip(self.minutes.until(minute)) {
            sum.add(count.copied().unwrap_or_default());
        }
        for histogram in self.ttft.until(minute).flatten().flatten() {
            for (sum, cases) in figures.ttft.iter_mut().zip(histogram.0) {
                *sum += u64::from(cases);
            }
        }
        let errors = self.errors.iter().filter_map(|series| series.error_count(minute));
        errors.for_each(|error| figures.add_error(error));
        figures
    }

    /// Returns what was counted in `minute`, for other gateways. `now` is the current second if the minute is the
    /// current one.
    pub(super) fn report(&self, minute: u64, second: Option<u64>) -> MinuteFigures {
        let histogram = self.ttft.get(minute).and_then(Option::as_deref);
        let buckets = histogram.into_iter().flat_map(|histogram| (0..).zip(histogram.0));
        let error = |series: &ErrorSeries| {
            let count = series.counts.get(minute).copied().filter(|count| *count > 0)?;
            Some(ErrorCount { code: series.code.clone(), count, last_at: series.last_at })
        };
        MinuteFigures {
            count: self.minutes.get(minute).copied().unwrap_or_default(),
            recent: second.map(|second| self.recent(second)).unwrap_or_default(),
            in_flight: 0,
            ttft: buckets
                .filter(|(_, cases)| *cases > 0)
                .map(|(bucket, cases)| (bucket, u64::from(cases)))
                .collect(),
            errors: self.errors.iter().filter_map(error).collect(),
        }
    }

    /// Returns the counts of the completed seconds before `second` that rates cover.
    fn recent(&self, second: u64) -> Count {
        let mut recent = Count::default();
        let completed = self.seconds.until(second).take(RATE_SECONDS);
        completed.flatten().for_each(|count| recent.add(*count));
        recent
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
