//! What the gateway told us, in our own words.
//!
//! `None` means unknown and is shown as `–`, never as 0. Amounts are exact decimals in US dollars
//! and stay text: nothing here or later computes with them.

use jiff::Timestamp;

/// The account that is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name that it signs in with.
    pub name: String,
    /// What it may do.
    pub role: Option<Role>,
    /// Whether its requests are refused.
    pub suspended: bool,
    /// The name of its plan, if it has one.
    pub plan: Option<String>,
    /// What is left of its money.
    pub balance_usd: Option<String>,
}

/// What an account may do on the admin plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees and changes what is its own.
    Member,
    /// Sees and changes everything.
    Operator,
}

/// The limits of a plan; here `None` means that there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens per minute.
    pub tpm: Option<u64>,
    /// Requests at the same time.
    pub concurrency: Option<u64>,
}

/// Token counts of a request or a sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Those of the prompt, the cached ones included.
    pub input: Option<u64>,
    /// Those of `input` that came from a cache.
    pub cached: Option<u64>,
    /// Those of the answer, the reasoning ones included.
    pub output: Option<u64>,
    /// Those of `output` that were spent on reasoning.
    pub reasoning: Option<u64>,
}

/// A sum over requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub requests: u64,
    /// How many of them failed or were refused.
    pub errors: u64,
    /// What they used.
    pub tokens: Tokens,
    /// What they cost.
    pub cost_usd: Option<String>,
}

/// The sums of the last 30 days.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Over everything.
    pub totals: Totals,
    /// By model, as the server orders them.
    pub by_model: Vec<(String, Totals)>,
}

/// What is fetched together, and again when it may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Who is signed in.
    pub account: Account,
    /// The limits of its plan, if it has a plan.
    pub limits: Option<Limits>,
    /// What it used.
    pub usage: Usage,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The answer reached its end.
    Completed,
    /// The answer was cut by a limit or a filter.
    Incomplete,
    /// The upstream or the gateway failed.
    Failed,
    /// The client went away.
    Cancelled,
    /// The gateway died meanwhile.
    Interrupted,
    /// It was refused.
    Rejected,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When it came in.
    pub started_at: Option<Timestamp>,
    /// The model.
    pub model: Option<String>,
    /// How it ended.
    pub status: Option<Status>,
    /// What it used.
    pub tokens: Tokens,
    /// From its arrival to the end of the answer.
    pub duration_ms: Option<f64>,
    /// What it cost.
    pub cost_usd: Option<String>,
}

/// A piece of the request log.
#[derive(Clone, Debug, PartialEq)]
pub struct Tailed {
    /// Whether the log begins anew with this piece, because the cursor was not accepted.
    pub restarted: bool,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// How many were skipped before these.
    pub dropped: u64,
    /// Whether all history was sent.
    pub live: bool,
}

// === impl Tokens ===

impl Tokens {
    /// Returns input and output together, if both are known.
    pub fn total(&self) -> Option<u64> {
        Some(self.input?.saturating_add(self.output?))
    }
}
