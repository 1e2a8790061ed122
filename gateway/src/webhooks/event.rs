//! The events of webhooks, and their JSON.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Subject;
use domain::alert::{Alert, AlertId};
use domain::id::{AccountId, UpstreamName};

/// The type of an event.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum EventKind {
    /// The balance of an account fell below the bound.
    BalanceLow,
    /// A key has spent most of its spending cap.
    SpendCapNear,
    /// A key expires soon.
    KeyExpiring,
    /// An upstream cannot be used.
    UpstreamDown,
    /// It can be used again.
    UpstreamUp,
    /// Requests are not recorded.
    LedgerStopped,
    /// They are recorded again.
    LedgerResumed,
    /// An operator tests the webhooks.
    Test,
}

/// The text is not the type of an event.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an event; the events are {all}", all = EventKind::names())]
pub struct UnknownEventError(String);

/// Something that operators are notified of. It contains ids and amounts, and neither secrets nor text of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A condition of an account or a key began.
    Alert(Alert),
    /// An upstream cannot be used.
    UpstreamDown(UpstreamName),
    /// It can be used again.
    UpstreamUp(UpstreamName),
    /// Requests are not recorded, for this reason.
    LedgerStopped(String),
    /// They are recorded again.
    LedgerResumed,
    /// An operator tests the webhooks.
    Test,
}

// === impl EventKind ===

impl EventKind {
    /// All that can be chosen in a setting.
    pub const ALL: [Self; 7] = [
        Self::BalanceLow,
        Self::SpendCapNear,
        Self::KeyExpiring,
        Self::UpstreamDown,
        Self::UpstreamUp,
        Self::LedgerStopped,
        Self::LedgerResumed,
    ];

    /// Returns the name in settings and in the field `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BalanceLow => "balance_low",
            Self::SpendCapNear => "spend_cap_near",
            Self::KeyExpiring => "key_expiring",
            Self::UpstreamDown => "upstream_down",
            Self::UpstreamUp => "upstream_up",
            Self::LedgerStopped => "ledger_stopped",
            Self::LedgerResumed => "ledger_resumed",
            Self::Test => "test",
        }
    }

    fn names() -> String {
        Self::ALL.map(|kind| format!("`{}`", kind.as_str())).join(", ")
    }
}

impl FromStr for EventKind {
    type Err = UnknownEventError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownEventError(text.to_owned()))
    }
}

impl TryFrom<String> for EventKind {
    type Error = UnknownEventError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EventKind> for String {
    fn from(kind: EventKind) -> Self {
        kind.as_str().to_owned()
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Event ===

impl Event {
    /// Returns the type.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Alert(Alert::BalanceLow { .. }) => EventKind::BalanceLow,
            Self::Alert(Alert::SpendCapNear { .. }) => EventKind::SpendCapNear,
            Self::Alert(Alert::KeyExpiring { .. }) => EventKind::KeyExpiring,
            Self::UpstreamDown(_) => EventKind::UpstreamDown,
            Self::UpstreamUp(_) => EventKind::UpstreamUp,
            Self::LedgerStopped(_) => EventKind::LedgerStopped,
            Self::LedgerResumed => EventKind::LedgerResumed,
            Self::Test => EventKind::Test,
        }
    }

    /// Returns the account that it is about; `None` for upstreams and the ledger.
    pub(super) fn account(&self) -> Option<AccountId> {
        match self {
            Self::Alert(
                Alert::BalanceLow { account, .. }
                | Alert::SpendCapNear { account, .. }
                | Alert::KeyExpiring { account, .. },
            ) => Some(*account),
            Self::UpstreamDown(_)
            | Self::UpstreamUp(_)
            | Self::LedgerStopped(_)
            | Self::LedgerResumed
            | Self::Test => None,
        }
    }

    /// Returns what it is about. The end of a condition is about the same subject as its beginning.
    pub(super) fn subject(&self) -> Subject {
        match self {
            Self::Alert(alert) => Subject::Alert(alert.id()),
            Self::UpstreamDown(name) | Self::UpstreamUp(name) => {
                Subject::Alert(AlertId::upstream_down(name))
            }
            Self::LedgerStopped(_) | Self::LedgerResumed => Subject::Ledger,
            Self::Test => Subject::Test,
        }
    }

    /// Returns the body of a message: `type`, `timestamp` and `data`, as Standard Webhooks advises. `gateway` is the name
    /// of the gateway that sends it.
    pub(super) fn to_json(&self, at: Timestamp, gateway: &str) -> String {
        let mut data = self.data();
        data.insert("gateway".to_owned(), gateway.into());
        json!({ "type": self.kind().as_str(), "timestamp": at.to_string(), "data": data })
            .to_string()
    }

    fn data(&self) -> Map<String, Value> {
        let data = match self {
            Self::Alert(Alert::BalanceLow { account, balance, bound }) => json!({
                "account": account.to_string(),
                "balance_usd": balance.to_string(),
                "below_usd": bound.to_string(),
            }),
            Self::Alert(Alert::SpendCapNear { account, key, spent, cap, .. }) => json!({
                "account": account.to_string(),
                "key": key.as_str(),
                "spent_usd": spent.to_string(),
                "spend_cap_usd": cap.to_string(),
            }),
            Self::Alert(Alert::KeyExpiring { account, key, expires_at }) => json!({
                "account": account.to_string(),
                "key": key.as_str(),
                "expires_at": expires_at.to_string(),
            }),
            Self::UpstreamDown(upstream) | Self::UpstreamUp(upstream) => {
                json!({ "upstream": upstream.as_str() })
            }
            Self::LedgerStopped(reason) => json!({ "reason": reason }),
            Self::LedgerResumed | Self::Test => json!({}),
        };
        match data {
            Value::Object(data) => data,
            _ => unreachable!("each is an object"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::KeyId;
    use domain::money::Nanos;

    #[test]
    fn names_are_read_as_written() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        let error = "test".parse::<EventKind>().unwrap_err().to_string();
        assert!(error.contains("`balance_low`"), "{error}");
    }

    #[test]
    fn a_body_has_type_time_and_data() {
        let at: Timestamp = "2026-11-25T12:00:00Z".parse().unwrap();
        let (account, key) = (AccountId(uuid::Uuid::nil()), KeyId::new("9f2c41d0"));
        let origin = key.clone();
        let (spent, cap) = (Nanos(800_000_000), Nanos(1_000_000_000));
        let near = Event::Alert(Alert::SpendCapNear { account, key, origin, spent, cap });
        let body = r#"{"data":{"account":"00000000-0000-0000-0000-000000000000","gateway":"gate-1","key":"9f2c41d0","spend_cap_usd":"1","spent_usd":"0.8"},"timestamp":"2026-11-25T12:00:00Z","type":"spend_cap_near"}"#;
        assert_eq!(near.to_json(at, "gate-1"), body);
        let test = r#"{"data":{"gateway":"g"},"timestamp":"2026-11-25T12:00:00Z","type":"test"}"#;
        assert_eq!(Event::Test.to_json(at, "g"), test);
    }
}
