//! Plans: what accounts are entitled to.

use super::fetched::ListEntry;

/// Limits of a plan, a model or a key; here `None` means that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens per minute.
    pub tpm: Option<u64>,
    /// Requests at the same time.
    pub concurrency: Option<u64>,
    /// Tokens per calendar month.
    pub monthly_tokens: Option<u64>,
    /// Whether what exceeds them is served and noted, instead of refused.
    pub observe: bool,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The name.
    pub name: String,
    /// What a new account is given once: an exact decimal in US dollars.
    pub trial_credit_usd: Option<String>,
    /// Limits over all keys of an account.
    pub limits: Limits,
    /// The models that it may use; empty means all.
    pub models: Vec<String>,
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
