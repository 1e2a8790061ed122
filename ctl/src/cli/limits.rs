//! The flags for limits, shared by all commands that set limits.

use clap::{Args, ValueEnum};
use proto::v1::Limits;

/// Limits; an absent flag leaves the limit unchanged.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitFlags {
    /// Requests per minute; 0 for no limit
    #[arg(long, value_name = "N")]
    rpm: Option<u64>,
    /// Tokens per minute; 0 for no limit
    #[arg(long, value_name = "N")]
    tpm: Option<u64>,
    /// Concurrent requests; 0 for no limit
    #[arg(long, value_name = "N")]
    concurrency: Option<u64>,
    /// Tokens per calendar month (UTC); 0 for no limit
    #[arg(long, value_name = "N")]
    monthly_tokens: Option<u64>,
    /// Refuse requests over these limits (enforce), or serve and record them (observe)
    #[arg(long, value_name = "MODE")]
    limit_mode: Option<LimitMode>,
}

/// The treatment of requests over a limit: `Enforce` refuses them, `Observe` serves them and notes
/// the excess on the request record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LimitMode {
    Enforce,
    Observe,
}

// === impl LimitFlags ===

impl LimitFlags {
    /// Overwrites in `limits` the limits with a flag; zero removes a limit.
    pub(crate) fn apply_to(self, limits: &mut Limits) {
        for (limit, given) in [
            (&mut limits.rpm, self.rpm),
            (&mut limits.tpm, self.tpm),
            (&mut limits.concurrency, self.concurrency),
            (&mut limits.monthly_tokens, self.monthly_tokens),
        ] {
            if let Some(given) = given {
                *limit = Some(given).filter(|given| *given > 0);
            }
        }
        if let Some(mode) = self.limit_mode {
            limits.observe = Some(mode == LimitMode::Observe);
        }
    }

    /// Returns the limits for a create request; `None` without flags.
    pub(crate) fn for_create(self) -> Option<Limits> {
        let mut limits = Limits::default();
        self.apply_to(&mut limits);
        (limits != Limits::default()).then_some(limits)
    }

    /// Returns the limits for an update request, in which zero removes a limit; `None` without
    /// flags.
    pub(crate) fn for_update(self) -> Option<Limits> {
        let limits = Limits {
            rpm: self.rpm,
            tpm: self.tpm,
            concurrency: self.concurrency,
            monthly_tokens: self.monthly_tokens,
            observe: self.limit_mode.map(|mode| mode == LimitMode::Observe),
        };
        (limits != Limits::default()).then_some(limits)
    }
}
