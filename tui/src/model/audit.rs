//! The audit log of administrative changes.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// An administrative change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The sequence number in the log.
    pub id: String,
    /// The time of the change.
    pub at: Option<Timestamp>,
    /// The account that made the change; `None` for the gateway itself.
    pub actor: Option<String>,
    /// The client address that the change was requested from; `unix` for the Unix socket.
    pub address: Option<String>,
    /// The kind of change, such as `key.create`.
    pub action: String,
    /// The changed object.
    pub object: String,
    /// The affected account, if there is exactly one.
    pub account: Option<String>,
    /// Further details as text.
    pub details: String,
}

impl Tabular for AuditEntry {
    const COLUMNS: &'static [&'static str] =
        &["time", "actor", "action", "object", "account", "details", "address"];

    fn value(&self, column: &str) -> Value {
        match column {
            "time" => Value::time(self.at),
            "actor" => Value::optional_text(self.actor.as_deref()),
            "action" => Value::text(&self.action),
            "object" => Value::text(&self.object),
            "account" => Value::optional_text(self.account.as_deref()),
            "details" => Value::text(&self.details),
            "address" => Value::optional_text(self.address.as_deref()),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for AuditEntry {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        vec![
            self.actor.as_deref().unwrap_or_default(),
            self.address.as_deref().unwrap_or_default(),
            &self.action,
            &self.object,
            self.account.as_deref().unwrap_or_default(),
            &self.details,
        ]
    }
}
