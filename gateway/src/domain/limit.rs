//! What may be limited.

/// Limits of a plan, a model or a key; `None` is "no limit here".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens (input and output together) per minute.
    pub tpm: Option<u64>,
    /// Requests under way at the same time.
    pub concurrency: Option<u64>,
}

/// What a limit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitScope {
    /// The account's plan.
    Plan,
    /// The model, over all accounts.
    Model,
    /// The key.
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
}
