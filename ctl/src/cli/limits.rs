//! The flags for limits, the same wherever limits can be set.

use clap::{Args, ValueEnum};
use proto::v1::Limits;

/// Limits, as far as they are given.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitFlags {
    /// Requests per minute; 0 for no limit
    #[arg(long, value_name = "N")]
    rpm: Option<u64>,
    /// Tokens per minute; 0 for no limit
    #[arg(long, value_name = "N")]
    tpm: Option<u64>,
    /// Requests at the same time; 0 for no limit
    #[arg(long, value_name = "N")]
    concurrency: Option<u64>,
    /// Tokens per calendar month in UTC; 0 for no limit
    #[arg(long, value_name = "N")]
    monthly_tokens: Option<u64>,
    /// What becomes of requests that exceed these limits: refused, or served and noted on the record
    #[arg(long, value_name = "MODE")]
    limit_mode: Option<LimitMode>,
}

/// What becomes of a request that exceeds a limit: it is refused, or it is served and noted on its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LimitMode {
    Enforce,
    Observe,
}

// === impl LimitFlags ===

impl LimitFlags {
    /// Changes in `limits` what is given.
    pub(crate) fn change(self, limits: &mut Limits) {
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

    /// The limits of something new; `None` without any.
    pub(crate) fn of_new(self) -> Option<Limits> {
        let mut limits = Limits::default();
        self.change(&mut limits);
        (limits != Limits::default()).then_some(limits)
    }

    /// The limits that an update sends, zeros included; `None` if none is given.
    pub(crate) fn of_update(self) -> Option<Limits> {
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
