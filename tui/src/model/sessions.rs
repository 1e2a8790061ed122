//! The sessions of the signed-in account.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The id, which is not the token.
    pub id: String,
    /// The time at which it was opened.
    pub created_at: Option<Timestamp>,
    /// The time at which it expires.
    pub expires_at: Option<Timestamp>,
    /// Whether it is the one of this dashboard.
    pub is_current: bool,
}

// === impl Session ===

impl Session {
    /// Returns `this one`, or `another`.
    pub fn whose(&self) -> &'static str {
        if self.is_current { "this one" } else { "another" }
    }
}

impl Tabular for Session {
    const COLUMNS: &'static [&'static str] = &["id", "session", "opened", "ends"];

    fn value(&self, column: &str) -> Value {
        match column {
            "id" => Value::text(&self.id),
            "session" => Value::text(self.whose()),
            "opened" => Value::time(self.created_at),
            "ends" => Value::time(self.expires_at),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for Session {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.id, self.whose()]
    }
}
