//! The state of the usage screen: which range, its sums, and the filter of the log.

use super::fetched::Fetched;
use super::record::Totals;

/// The usage screen. The log itself is [`super::log::Log`].
#[derive(Debug, Default)]
pub struct UsageScreen {
    /// Over which time sums are shown.
    pub range: Range,
    /// The sums of that range.
    pub sums: Fetched<Usage>,
    /// The conditions on requests in the log; empty lets all pass.
    pub filter: String,
}

/// Over which time sums are shown.
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

/// The sums of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Over everything.
    pub totals: Totals,
    /// By model, the dearest first.
    pub by_model: Vec<(String, Totals)>,
    /// By day (`2026-11-20`, in UTC), oldest first; days without requests are left out.
    pub by_day: Vec<(String, Totals)>,
    /// By key, as its owner calls it, the dearest first.
    pub by_key: Vec<(String, Totals)>,
}

// === impl Range ===

impl Range {
    /// All of them, the shortest first.
    pub const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// Returns how people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    /// Returns how long it is, in hours.
    pub fn hours(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::Day => 24,
            Self::Week => 7 * 24,
            Self::Month => 30 * 24,
        }
    }

    /// Returns the one that is `steps` longer, or the longest or shortest there is.
    #[must_use]
    pub fn step(self, steps: isize) -> Self {
        let place = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        let place = place.saturating_add_signed(steps).min(Self::ALL.len() - 1);
        Self::ALL[place]
    }
}
