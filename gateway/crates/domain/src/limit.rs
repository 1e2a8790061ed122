//! What may be limited, and how much of a limit a request takes.

use std::time::Duration;

use super::hold::HoldPolicy;

/// Limits of a plan, a model or a key; `None` is "no limit here".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens (input and output together) per minute.
    pub tpm: Option<u64>,
    /// Requests under way at the same time.
    pub concurrency: Option<u64>,
    /// Tokens (input and output together) per calendar month in UTC.
    pub monthly_tokens: Option<u64>,
    /// Whether what exceeds them is served and noted on its record, instead of refused.
    pub observe: bool,
}

/// What a limit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitScope {
    /// The account's plan.
    Plan,
    /// The model, over all accounts.
    Model,
    /// The key, with those that it took the place of.
    Key,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKind {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Requests at the same time.
    Concurrency,
    /// Tokens per calendar month.
    MonthlyTokens,
}

/// How many tokens a request may take, as far as that is known before it goes upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its input as it is estimated, for the limits per minute; in tokens.
    pub input: u64,
    /// The most that its input can be, for the quotas per month; in tokens.
    pub max_input: u64,
    /// How much output is reserved to begin with, over all answers.
    pub output: u64,
    /// How much more is reserved at a time while the answer grows.
    pub step: u64,
    /// The longest that each answer may be.
    pub longest: u64,
    /// How many answers it wants; at least one.
    pub choices: u64,
    /// How the answers come.
    pub policy: HoldPolicy,
}

/// How one limit stands, as its client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// The limit.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// When all of it is there again, if nothing more is used.
    pub reset: Duration,
}

/// How the tightest limits that hold for a request stand; `None` where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitStatus {
    /// Requests per minute.
    pub requests: Option<Gauge>,
    /// Tokens per minute.
    pub tokens: Option<Gauge>,
}

// === impl Limits ===

impl Limits {
    /// Whether tokens are limited.
    pub const fn count_tokens(&self) -> bool {
        self.tpm.is_some() || self.monthly_tokens.is_some()
    }
}

// === impl LimitScope ===

impl LimitScope {
    /// Its name in notes on records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Model => "model",
            Self::Key => "key",
        }
    }
}

// === impl LimitKind ===

impl LimitKind {
    /// Its name in notes on records: that of the field of [`Limits`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "rpm",
            Self::Tokens => "tpm",
            Self::Concurrency => "concurrency",
            Self::MonthlyTokens => "monthly_tokens",
        }
    }
}

// === impl LimitStatus ===

impl LimitStatus {
    /// Takes in how a limit on requests per minute stands.
    pub fn see_requests(&mut self, gauge: Gauge) {
        tighten(&mut self.requests, gauge);
    }

    /// Takes in how a limit on tokens per minute stands.
    pub fn see_tokens(&mut self, gauge: Gauge) {
        tighten(&mut self.tokens, gauge);
    }
}

/// The limit with the least left is the tightest, the lower one if there is as much.
fn tighten(tightest: &mut Option<Gauge>, gauge: Gauge) {
    let order = |gauge: &Gauge| (gauge.remaining, gauge.limit);
    if tightest.as_ref().is_none_or(|tightest| order(&gauge) < order(tightest)) {
        *tightest = Some(gauge);
    }
}
