//! Token counts of a request and their origin.

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(pub u64);

/// The tokens of one request. `cached` is part of `input`, and `reasoning` is part of `output`;
/// both are `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: Tokens,
    /// Prompt tokens from the upstream's cache; at most `input`.
    pub cached: Option<Tokens>,
    /// Tokens of the answer.
    pub output: Tokens,
    /// Answer tokens of reasoning; at most `output`.
    pub reasoning: Option<Tokens>,
}

impl Usage {
    /// Bytes of text per token, for estimates without a tokenizer.
    const BYTES_PER_TOKEN: u64 = 4;

    /// Returns the usage to charge if neither the upstream nor the tokenizer counted: one token per
    /// four bytes of text, rounded up, and at least one input token.
    pub const fn bounded(input_bytes: u64, output_bytes: u64) -> Self {
        let input = input_bytes.div_ceil(Self::BYTES_PER_TOKEN);
        Self {
            input: Tokens(if input == 0 { 1 } else { input }),
            cached: None,
            output: Tokens(output_bytes.div_ceil(Self::BYTES_PER_TOKEN)),
            reasoning: None,
        }
    }

    /// Returns input and output together, which tokens-per-minute limits count.
    pub const fn total(&self) -> Tokens {
        Tokens(self.input.0.saturating_add(self.output.0))
    }
}

/// The origin of a [`Usage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UsageBasis {
    /// Reported by the upstream.
    Upstream,
    /// Counted with the gateway's tokenizer, because the upstream did not report it.
    Counted,
    /// Derived from the number of bytes, because nothing else is known.
    Bounded,
    /// No tokens were used.
    None,
}
