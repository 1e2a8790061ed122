//! Traffic: what goes through the gateway now, and how much of the limits is used.

use jiff::Timestamp;

/// The traffic of the last hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Requests under way.
    pub in_flight: u64,
    /// Requests that ended, per second, over the last ten seconds.
    pub requests_per_second: f64,
    /// Their tokens per second.
    pub tokens_per_second: f64,
    /// The last 60 minutes, oldest first.
    pub minutes: Vec<Minute>,
    /// Time to the first piece of an answer.
    pub ttft: Option<Percentiles>,
    /// What went wrong, most frequent first.
    pub errors: Vec<ErrorCount>,
}

/// One minute of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// Requests that ended in it.
    pub requests: u64,
    /// How many of them went wrong.
    pub errors: u64,
    /// Their tokens.
    pub tokens: u64,
}

/// How long something took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// Half took no longer.
    pub p50_ms: f64,
    /// Nine in ten took no longer.
    pub p90_ms: f64,
    /// 99 in a hundred took no longer.
    pub p99_ms: f64,
}

/// How often an error was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// The error's code.
    pub code: String,
    /// How often.
    pub count: u64,
    /// When last.
    pub last_at: Option<Timestamp>,
}

/// A limit and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// What it belongs to.
    pub scope: Option<LimitScope>,
    /// Which one: a plan's name, a model's id, a key's public id.
    pub subject: String,
    /// What it counts.
    pub kind: Option<LimitKind>,
    /// The limit.
    pub limit: u64,
    /// How much of it is used now.
    pub used: u64,
    /// Whether it is only observed.
    pub observed: bool,
    /// When all of it is free again.
    pub resets_at: Option<Timestamp>,
}

/// What a limit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// The account's plan.
    Plan,
    /// A model.
    Model,
    /// A key.
    Key,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Requests under way.
    Concurrency,
    /// Tokens per month.
    MonthlyTokens,
    /// Money that a key may spend, in billionths of a US dollar.
    Spending,
}
