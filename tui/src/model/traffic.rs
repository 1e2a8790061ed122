//! Live traffic and the current usage of limits.

use jiff::Timestamp;

/// The traffic of the last hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// The number of requests in flight.
    pub in_flight: u64,
    /// Completed requests per second, averaged over the last ten seconds.
    pub requests_per_second: f64,
    /// Tokens of completed requests per second, averaged over the last ten seconds.
    pub tokens_per_second: f64,
    /// The last 60 minutes, oldest first.
    pub minutes: Vec<Minute>,
    /// The time to the first chunk of a response.
    pub ttft: Option<Percentiles>,
    /// The errors of the last hour, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// The state of the ledger; `None` for the traffic of an account.
    pub ledger: Option<LedgerState>,
}

/// The state of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerState {
    /// The sum of all balances in US dollars.
    pub balance_usd: String,
    /// The part of it that is held for requests in flight.
    pub held_usd: String,
    /// Whether requests are refused, because they could not be recorded.
    pub is_stopped: bool,
    /// The number of records that the database does not have yet.
    pub waiting_records: u64,
    /// When the request of the oldest record ended that the database does not have yet.
    pub oldest_waiting: Option<Timestamp>,
}

/// One minute of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// The number of requests that ended in the minute.
    pub requests: u64,
    /// How many of them failed.
    pub errors: u64,
    /// The tokens of these requests.
    pub tokens: u64,
}

/// Percentiles of a duration, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50_ms: f64,
    /// The 90th percentile.
    pub p90_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
}

/// The number of occurrences of an error code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// The error code.
    pub code: String,
    /// The number of occurrences.
    pub count: u64,
    /// The time of the last occurrence.
    pub last_at: Option<Timestamp>,
}

/// A limit and its current usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// The owner of the limit.
    pub scope: Option<LimitScope>,
    /// The owner's identifier: a plan name, a model id or the public id of a key.
    pub subject: String,
    /// The counted quantity.
    pub kind: Option<LimitKind>,
    /// The limit, in units of `kind`.
    pub limit: u64,
    /// The usage, in units of `kind`.
    pub used: u64,
    /// Whether requests above the limit are served and only noted.
    pub observed: bool,
    /// The time at which the whole limit is available again.
    pub resets_at: Option<Timestamp>,
}

/// The owner of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// The account's plan.
    Plan,
    /// A model.
    Model,
    /// A key.
    Key,
}

/// The quantity that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Concurrent requests.
    Concurrency,
    /// Tokens per calendar month.
    MonthlyTokens,
    /// The total spending of a key, in billionths of a US dollar.
    Spending,
}
