//! How many tokens a request took, and how we know.

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(pub u64);

/// The tokens of one request. `cached` is part of `input` and `reasoning` of `output`; both are
/// `None` where nobody said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: Tokens,
    /// Those that the upstream had in its cache; never more than `input`.
    pub cached: Option<Tokens>,
    /// Tokens of the answer.
    pub output: Tokens,
    /// Those that went into reasoning; never more than `output`.
    pub reasoning: Option<Tokens>,
}

impl Usage {
    /// Input and output together: what tokens-per-minute limits count.
    pub const fn total(&self) -> Tokens {
        Tokens(self.input.0.saturating_add(self.output.0))
    }
}

/// Where a [`Usage`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UsageBasis {
    /// The upstream said so.
    Upstream,
    /// The upstream did not say; we counted with a tokenizer.
    Counted,
    /// Only a bound is known.
    Bounded,
    /// Nothing was used.
    None,
}
