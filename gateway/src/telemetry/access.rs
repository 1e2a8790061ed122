//! The access log: a line for each request that has ended, from its record.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use domain::id::ModelId;
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
    /// Creates a log; `None` if it is off.
    pub fn new(setting: AccessLogSetting) -> Option<Self> {
        (setting != AccessLogSetting::Off).then_some(Self { setting, seen: 0 })
    }

    /// Logs the requests of these records, as far as they are chosen.
    pub fn write(&mut self, records: &[RequestRecord]) {
        for record in records {
            if self.chooses(record.status) {
                write(record);
            }
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

/// Logs a request. Text of its client, such as the name of an unknown model, is a string value, which is escaped.
fn write(record: &RequestRecord) {
    let (usage, trace) = (record.usage.as_ref(), record.trace.as_deref());
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        event = "request",
        request_id = %record.id,
        account = %record.account,
        key = record.key.as_str(),
        endpoint = record.endpoint.as_str(),
        model = record.model.as_ref().map(ModelId::as_str),
        upstream = record.deployment.as_ref().map(|deployment| deployment.upstream.as_str()),
        stream = record.stream,
        status = record.status.as_str(),
        http_status = record.http_status,
        error_code = record.error_word(),
        started_at = %record.started_at,
        duration_ms = millis(record.duration),
        ttft_ms = record.ttft.map(millis),
        input_tokens = usage.map(|usage| usage.input.0),
        output_tokens = usage.map(|usage| usage.output.0),
        cost_usd = record.cost.map(tracing::field::display),
        requests = record.count.get(),
        trace_id = trace.map(|trace| tracing::field::display(trace.trace_id)),
        span_id = trace.map(|trace| tracing::field::display(trace.span_id)),
        "request"
    );
}

#[cfg(test)]
mod tests {
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
    fn a_sample_has_one_in_n_requests_and_all_that_failed() {
        let mut log = AccessLog::new("sampled:3".parse().unwrap()).unwrap();
        let mut chosen = |status| (0..9).filter(|_| log.chooses(status)).count();
        assert_eq!(chosen(RequestStatus::Completed), 3);
        assert_eq!(chosen(RequestStatus::Rejected), 3);
        assert_eq!(chosen(RequestStatus::Failed), 9);
        assert!(AccessLog::new(AccessLogSetting::Off).is_none());
    }
}
