//! Plans: the limits and models that accounts are entitled to.

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// The limits of a plan, a model or a key. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens per minute.
    pub tpm: Option<u64>,
    /// Concurrent requests.
    pub concurrency: Option<u64>,
    /// Tokens per calendar month.
    pub monthly_tokens: Option<u64>,
    /// Whether requests above a limit are served and only noted, instead of refused.
    pub observe: bool,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The name.
    pub name: String,
    /// The one-time credit of a new account: an exact decimal in US dollars.
    pub trial_credit_usd: Option<String>,
    /// The limits across all keys of an account.
    pub limits: Limits,
    /// The number of usable keys from which an account can make no more; the gateway's default if absent.
    pub max_keys: Option<u32>,
    /// The allowed models; empty means all.
    pub models: Vec<String>,
}

impl Tabular for Plan {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "trial credit",
        "requests/min",
        "tokens/min",
        "concurrency",
        "tokens/month",
        "models",
    ];

    fn value(&self, column: &str) -> Value {
        match column {
            "name" => Value::text(&self.name),
            "trial credit" => Value::amount(self.trial_credit_usd.as_deref()),
            "requests/min" => Value::count(self.limits.rpm),
            "tokens/min" => Value::count(self.limits.tpm),
            "concurrency" => Value::count(self.limits.concurrency),
            "tokens/month" => Value::count(self.limits.monthly_tokens),
            "models" => Value::text(&self.models.join(" ")),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for Plan {
    fn id(&self) -> &str {
        &self.name
    }

    fn texts(&self) -> Vec<&str> {
        let mut texts = vec![&*self.name];
        texts.extend(self.models.iter().map(String::as_str));
        texts
    }
}
