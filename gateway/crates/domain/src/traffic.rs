//! Counts of ended requests by minute, which the gateways of one database report to each other.
//!
//! Reports are stored as JSON. A version ignores the fields that it does not know, and fields that are
//! missing are zero or empty, so gateways of two versions read each other's reports.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::id::{AccountId, NodeId};

/// Counts of ended requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Count {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests that failed, were refused or interrupted.
    pub errors: u64,
    /// Their tokens, input and output together.
    pub tokens: u64,
}

/// The number of errors with one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The error code; the request's status if it has none.
    pub code: String,
    /// The number of errors.
    pub count: u64,
    /// The end of the latest such request.
    #[serde(with = "microseconds")]
    pub last_at: Timestamp,
}

/// What one gateway has counted in one minute, for one account or in total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MinuteFigures {
    /// The requests that ended in the minute.
    pub count: Count,
    /// The requests that ended in the last ten completed seconds at the time of the report.
    pub recent: Count,
    /// The requests in flight at the time of the report.
    pub in_flight: u64,
    /// The times to the first token in the minute: buckets of [`latency`](super::latency) with their counts.
    pub ttft: Vec<(u16, u64)>,
    /// The errors of the minute.
    pub errors: Vec<ErrorCount>,
}

/// What one gateway has counted in one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteReport {
    /// The start of the minute, which is one of the gateway's process.
    pub started_at: Timestamp,
    /// Over all accounts.
    pub total: MinuteFigures,
    /// By account.
    pub accounts: HashMap<AccountId, MinuteFigures>,
}

/// A gateway process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeProcess {
    /// Its node.
    pub node: NodeId,
    /// The number of its start.
    pub epoch: i64,
}

/// A minute of another gateway process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedMinute {
    /// The process.
    pub process: NodeProcess,
    /// The start of the minute.
    pub started_at: Timestamp,
    /// What it has counted.
    pub figures: MinuteFigures,
}

/// What other gateway processes have reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedTraffic {
    /// The minutes whose reports are new or have changed.
    pub minutes: Vec<ReportedMinute>,
    /// The processes that serve requests.
    pub serving: Vec<NodeProcess>,
}

impl Count {
    /// Adds counts of other requests.
    pub fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

mod microseconds {
    use jiff::Timestamp;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_i64(at.as_microsecond())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        Timestamp::from_microsecond(i64::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_other_versions_are_read() {
        let figures = MinuteFigures {
            count: Count { requests: 3, errors: 1, tokens: 40 },
            ttft: vec![(7, 2)],
            errors: vec![ErrorCount {
                code: "upstream_error".to_owned(),
                count: 1,
                last_at: Timestamp::UNIX_EPOCH,
            }],
            ..MinuteFigures::default()
        };
        let text = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<MinuteFigures>(&text).unwrap(), figures);
        let newer = r#"{"count":{"requests":2,"retries":9},"later":[1]}"#;
        let read: MinuteFigures = serde_json::from_str(newer).unwrap();
        assert_eq!(read.count, Count { requests: 2, ..Count::default() });
    }
}
