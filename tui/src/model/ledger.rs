//! The ledger: all changes of balances.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// A change of a balance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The position in the ledger.
    pub id: String,
    /// The account's name.
    pub account: String,
    /// The cause: `trial`, `credit`, `charge`, `correction` or `overrun`; `None` if unknown.
    pub kind: Option<&'static str>,
    /// The amount: an exact decimal in US dollars, negative for a charge.
    pub amount_usd: Option<String>,
    /// The id of the charged request.
    pub request: Option<String>,
    /// The operator's reason.
    pub note: Option<String>,
    /// The time of the change.
    pub at: Option<Timestamp>,
}

impl LedgerEntry {
    /// Returns the filter of the charged request, if there is one. Its id begins with the millisecond
    /// in which it started.
    pub fn request_filter(&self) -> Option<String> {
        let digits: String = self.request.as_ref()?.split('-').take(2).collect();
        let start = i64::from_str_radix(&digits, 16).ok()?;
        let [since, until] =
            [start, start.checked_add(1)?].map(|it| Timestamp::from_millisecond(it).ok());
        Some(format!("account:{} since:{} until:{}", self.account, since?, until?))
    }
}

impl Tabular for LedgerEntry {
    const COLUMNS: &'static [&'static str] =
        &["time", "account", "kind", "amount", "reason", "request"];

    fn value(&self, column: &str) -> Value {
        match column {
            "time" => Value::time(self.at),
            "account" => Value::text(&self.account),
            "kind" => Value::optional_text(self.kind),
            "amount" => Value::amount(self.amount_usd.as_deref()),
            "reason" => Value::optional_text(self.note.as_deref()),
            "request" => Value::optional_text(self.request.as_deref()),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for LedgerEntry {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        let optional = [self.kind, self.note.as_deref(), self.request.as_deref()];
        let mut texts = vec![self.account.as_str()];
        texts.extend(optional.into_iter().flatten());
        texts
    }
}
