//! Statistics of the last hour as sums, so that those of several gateways can be added.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::RandomState;
use jiff::Timestamp;

use super::time_series::{HISTORY_MINUTES, RATE_SECONDS, TTFT_MINUTES};
use domain::latency::{BUCKETS, Percentiles};
use domain::traffic::{Count, ErrorCount, MinuteFigures};

/// The sums behind a [`TrafficHistory`].
pub(super) struct Figures {
    /// The requests of the seconds that rates cover.
    pub(super) recent: Count,
    /// The last minutes, oldest first, including the current one.
    pub(super) minutes: [Count; HISTORY_MINUTES],
    /// The times to the first token.
    pub(super) ttft: [u64; BUCKETS],
    /// The errors of the last hour by code, with the end of the latest one.
    errors: HashMap<String, (u64, Timestamp), RandomState>,
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

impl Default for Figures {
    fn default() -> Self {
        Self {
            recent: Count::default(),
            minutes: [Count::default(); HISTORY_MINUTES],
            ttft: [0; BUCKETS],
            errors: HashMap::default(),
        }
    }
}

impl Figures {
    /// Adds errors with one code.
    pub(super) fn add_error(&mut self, ErrorCount { code, count, last_at }: ErrorCount) {
        let (sum, last) = self.errors.entry(code).or_insert((0, last_at));
        *sum += count;
        *last = last_at.max(*last);
    }

    /// Adds a minute of another gateway that began `age` ago.
    pub(super) fn add_minute(&mut self, minute: &MinuteFigures, age: Duration) {
        let back = usize::try_from(age.as_secs() / 60).unwrap_or(usize::MAX);
        let Some(slot) = self.minutes.iter_mut().rev().nth(back) else { return };
        slot.add(minute.count);
        minute.errors.iter().for_each(|error| self.add_error(error.clone()));
        if back < TTFT_MINUTES {
            for &(bucket, cases) in &minute.ttft {
                if let Some(sum) = self.ttft.get_mut(usize::from(bucket)) {
                    *sum += cases;
                }
            }
        }
    }

    /// Computes rates and percentiles.
    #[expect(clippy::cast_precision_loss, reason = "rates are for display and not summed")]
    pub(super) fn into_history(self) -> TrafficHistory {
        let per_second = |sum: u64| sum as f64 / RATE_SECONDS as f64;
        let errors = self.errors.into_iter();
        let mut errors: Vec<_> =
            errors.map(|(code, (count, last_at))| ErrorCount { code, count, last_at }).collect();
        errors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.code.cmp(&b.code)));
        TrafficHistory {
            requests_per_second: per_second(self.recent.requests),
            tokens_per_second: per_second(self.recent.tokens),
            minutes: self.minutes.to_vec(),
            ttft: Percentiles::of(&self.ttft),
            errors,
        }
    }
}
