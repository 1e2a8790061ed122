//! Invites to register, without their codes.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// An invite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invite {
    /// The id, which is not the code.
    pub id: String,
    /// The account that created it, if known.
    pub created_by: Option<String>,
    /// The plan of the new account; `None` for the default plan.
    pub plan: Option<String>,
    /// The credit of the new account besides the trial credit: an exact decimal in US dollars.
    pub credit_usd: Option<String>,
    /// The time of creation.
    pub created_at: Option<Timestamp>,
    /// The time at which the code expires.
    pub expires_at: Option<Timestamp>,
    /// The time of its use, if it was used.
    pub used_at: Option<Timestamp>,
}

// === impl Invite ===

impl Invite {
    /// Returns `used`, or `open`. Unused invites that expired are not listed for long.
    pub fn state(&self) -> &'static str {
        if self.used_at.is_some() { "used" } else { "open" }
    }
}

impl Tabular for Invite {
    const COLUMNS: &'static [&'static str] =
        &["id", "state", "plan", "credit", "created by", "created", "ends"];

    fn value(&self, column: &str) -> Value {
        match column {
            "id" => Value::text(&self.id),
            "state" => Value::text(self.state()),
            "plan" => Value::optional_text(self.plan.as_deref()),
            "credit" => Value::amount(self.credit_usd.as_deref()),
            "created by" => Value::optional_text(self.created_by.as_deref()),
            "created" => Value::time(self.created_at),
            "ends" => Value::time(self.expires_at),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for Invite {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.id, self.state()]
    }
}
