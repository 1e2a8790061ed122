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
    /// The bytes of text that make a token where nobody counts.
    const BYTES_PER_TOKEN: u64 = 4;

    /// What is charged where nobody counted and nobody can: a token for every four bytes of text,
    /// begun ones included, and one for a request without any.
    pub const fn bounded(input_bytes: u64, output_bytes: u64) -> Self {
        let input = input_bytes.div_ceil(Self::BYTES_PER_TOKEN);
        Self {
            input: Tokens(if input == 0 { 1 } else { input }),
            cached: None,
            output: Tokens(output_bytes.div_ceil(Self::BYTES_PER_TOKEN)),
            reasoning: None,
        }
    }

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
