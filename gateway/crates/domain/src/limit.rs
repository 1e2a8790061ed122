//! Limits, their current state, and the tokens that a request may use.

use std::time::Duration;

use super::hold::HoldPolicy;

/// Limits of a plan, a model or a key; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens (input and output together) per minute.
    pub tpm: Option<u64>,
    /// Concurrent requests.
    pub concurrency: Option<u64>,
    /// Tokens (input and output together) per calendar month in UTC.
    pub monthly_tokens: Option<u64>,
    /// Observe mode: requests over a limit are served, with a note on their record, instead of
    /// refused.
    pub observe: bool,
}

/// The subject of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitScope {
    /// The account's plan.
    Plan,
    /// The model, over all accounts.
    Model,
    /// The key, including its predecessors by rotation.
    Key,
}

/// The quantity that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKind {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Concurrent requests.
    Concurrency,
    /// Tokens per calendar month.
    MonthlyTokens,
}

/// The tokens that a request may use, as known before it is sent upstream. All amounts are in
/// tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The estimated input, for per-minute limits.
    pub input: u64,
    /// The upper bound of the input, for monthly quotas.
    pub max_input: u64,
    /// The output to reserve initially, over all answers.
    pub output: u64,
    /// The increment by which the reservation grows with the answer.
    pub step: u64,
    /// The maximum length of each answer.
    pub max_answer: u64,
    /// The number of answers (`n`); at least one.
    pub choices: u64,
    /// Whether answers are streamed or plain.
    pub policy: HoldPolicy,
}

/// The state of one limit, for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// The limit.
    pub limit: u64,
    /// The unused part of the limit.
    pub remaining: u64,
    /// The time until the limit is fully available again, without further use.
    pub reset: Duration,
}

/// The states of the tightest limits that apply to a request; `None` without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitStatus {
    /// Requests per minute.
    pub requests: Option<LimitState>,
    /// Tokens per minute.
    pub tokens: Option<LimitState>,
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
    /// Returns the name in notes of request records.
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
    /// Returns the name in notes of request records, which is the field's name in [`Limits`].
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
    /// Adds a limit on requests per minute. The tightest one is kept.
    pub fn add_requests(&mut self, state: LimitState) {
        tighten(&mut self.requests, state);
    }

    /// Adds a limit on tokens per minute. The tightest one is kept.
    pub fn add_tokens(&mut self, state: LimitState) {
        tighten(&mut self.tokens, state);
    }
}

/// Replaces `tightest` if `state` has less remaining, or the same and a lower limit.
fn tighten(tightest: &mut Option<LimitState>, state: LimitState) {
    let order = |state: &LimitState| (state.remaining, state.limit);
    if tightest.as_ref().is_none_or(|tightest| order(&state) < order(tightest)) {
        *tightest = Some(state);
    }
}
