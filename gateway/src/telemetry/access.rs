//! The access log: a line for each request that has ended, or for some of them.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::RequestLines;
use domain::record::{RequestRecord, RequestStatus};

/// Which requests are logged.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum AccessLogSetting {
    /// None.
    #[default]
    Off,
    /// One in this many, and each one that failed.
    Sampled(NonZeroU32),
    /// All.
    On,
}

/// The setting is none of `off`, `on` and `sampled:N`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a choice; write `off`, `on`, or `sampled:N` for one request in N")]
pub struct UnknownAccessLogError(String);

/// Logs requests.
pub struct AccessLog {
    setting: AccessLogSetting,
    /// `None` if the process has no log.
    lines: Option<RequestLines>,
    /// The number of records so far.
    seen: u32,
}

// === impl AccessLogSetting ===

impl FromStr for AccessLogSetting {
    type Err = UnknownAccessLogError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sampled = || text.strip_prefix("sampled:")?.parse().ok().map(Self::Sampled);
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            _ => sampled().ok_or_else(|| UnknownAccessLogError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for AccessLogSetting {
    type Error = UnknownAccessLogError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for AccessLogSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Sampled(every) => write!(f, "sampled:{every}"),
            Self::On => f.write_str("on"),
        }
    }
}

impl From<AccessLogSetting> for String {
    fn from(setting: AccessLogSetting) -> Self {
        setting.to_string()
    }
}

// === impl AccessLog ===

impl AccessLog {
    /// Creates a log that writes to `lines`; `None` if it is off.
    pub fn new(setting: AccessLogSetting, lines: Option<RequestLines>) -> Option<Self> {
        (setting != AccessLogSetting::Off).then_some(Self { setting, lines, seen: 0 })
    }

    /// Returns those of these records that are logged; none if the filter of the log excludes them.
    pub fn choose<'a>(&mut self, records: &'a [RequestRecord]) -> Vec<&'a RequestRecord> {
        if !tracing::enabled!(tracing::Level::INFO) {
            return Vec::new();
        }
        records.iter().filter(|record| self.chooses(record.status)).collect()
    }

    /// Writes a line for each of these requests, at the time `now`.
    pub fn write(&mut self, chosen: &[&RequestRecord], now: Timestamp) {
        if let Some(lines) = &mut self.lines {
            lines.write(chosen, now);
        }
    }

    fn chooses(&mut self, status: RequestStatus) -> bool {
        let number = self.seen;
        self.seen = self.seen.wrapping_add(1);
        match self.setting {
            AccessLogSetting::Off => false,
            AccessLogSetting::On => true,
            AccessLogSetting::Sampled(every) => {
                number.is_multiple_of(every.get()) || status == RequestStatus::Failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::level_filters::LevelFilter;
    use tracing::subscriber::with_default;
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::request_lines::tests::refused;
    use super::*;

    #[test]
    fn settings_are_words() {
        for text in ["off", "on", "sampled:100"] {
            assert_eq!(text.parse::<AccessLogSetting>().unwrap().to_string(), text);
        }
        for text in ["sampled:0", "sampled", "all", ""] {
            let error = text.parse::<AccessLogSetting>().unwrap_err().to_string();
            assert!(error.contains("`sampled:N`"), "{error}");
        }
    }

    #[test]
    fn the_filter_of_the_log_excludes_lines() {
        let mut log = AccessLog::new(AccessLogSetting::On, None).unwrap();
        let records = [refused()];
        for (filter, expected) in [(LevelFilter::INFO, 1), (LevelFilter::WARN, 0)] {
            let subscriber = tracing_subscriber::registry().with(filter);
            assert_eq!(with_default(subscriber, || log.choose(&records).len()), expected);
        }
    }

    #[test]
    fn a_sample_has_one_in_n_requests_and_all_that_failed() {
        let mut log = AccessLog::new("sampled:3".parse().unwrap(), None).unwrap();
        let mut chosen = |status| (0..9).filter(|_| log.chooses(status)).count();
        assert_eq!(chosen(RequestStatus::Completed), 3);
        assert_eq!(chosen(RequestStatus::Rejected), 3);
        assert_eq!(chosen(RequestStatus::Failed), 9);
        assert!(AccessLog::new(AccessLogSetting::Off, None).is_none());
    }
}
