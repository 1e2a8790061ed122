//! The state of the usage screen: the time range, its totals and the filter of the log.

use jiff::Timestamp;

use super::fetched::Fetched;
use super::record::Totals;

/// The usage screen. The log itself is a [`RequestLog`](super::log::RequestLog).
#[derive(Debug, Default)]
pub struct UsageScreen {
    /// The time range of the totals.
    pub range: Range,
    /// The totals of the range.
    pub sums: Fetched<Usage>,
    /// The totals of the period of the same length before the range.
    pub before: Fetched<Usage>,
    /// The filter expression that the user entered; empty matches all requests.
    pub filter: String,
    /// The part of the filter that the gateway evaluates, for the log and the totals.
    pub expression: String,
}

/// The totals of a period of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// The time at which it begins.
    pub start: Timestamp,
    /// The totals of the requests that arrived in it.
    pub totals: Totals,
}

/// The time range of usage totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// The last hour.
    Hour,
    /// The last 24 hours.
    #[default]
    Day,
    /// The last seven days.
    Week,
    /// The last 30 days.
    Month,
}

/// The usage totals of a time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The totals of all requests.
    pub totals: Totals,
    /// The totals per model, highest cost first.
    pub by_model: Vec<(String, Totals)>,
    /// The totals of each minute, hour or UTC day of the range, oldest first, also of those without
    /// requests.
    pub series: Vec<Period>,
    /// The totals by the start of a period and by model, if the subscription asks for them.
    pub by_model_and_time: Vec<(Timestamp, String, Totals)>,
    /// The totals per key label, highest cost first.
    pub by_key: Vec<(String, Totals)>,
}

// === impl UsageScreen ===

impl UsageScreen {
    /// Drops the totals, because those of another range or filter are fetched.
    pub fn clear(&mut self) {
        self.sums = Fetched::default();
        self.before = Fetched::default();
    }
}

// === impl Range ===

impl Range {
    /// All ranges, shortest first.
    pub const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    /// Returns the length in hours.
    pub fn hours(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::Day => 24,
            Self::Week => 7 * 24,
            Self::Month => 30 * 24,
        }
    }

    /// Returns the length of a period of the series, in seconds.
    pub fn period_seconds(self) -> i64 {
        match self {
            Self::Hour => 60,
            Self::Day => 3_600,
            Self::Week | Self::Month => 86_400,
        }
    }

    /// Returns the range `steps` longer (negative: shorter), limited to the available ranges.
    #[must_use]
    pub fn step(self, steps: isize) -> Self {
        let index = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        let index = index.saturating_add_signed(steps).min(Self::ALL.len() - 1);
        Self::ALL[index]
    }
}
