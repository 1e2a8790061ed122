//! The flags for limits, the same wherever limits can be set.

use clap::Args;
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
}

// === impl LimitFlags ===

impl LimitFlags {
    /// Changes in `limits` what is given.
    pub(crate) fn change(self, limits: &mut Limits) {
        for (limit, given) in [
            (&mut limits.rpm, self.rpm),
            (&mut limits.tpm, self.tpm),
            (&mut limits.concurrency, self.concurrency),
        ] {
            if let Some(given) = given {
                *limit = Some(given).filter(|given| *given > 0);
            }
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
        let limits = Limits { rpm: self.rpm, tpm: self.tpm, concurrency: self.concurrency };
        (limits != Limits::default()).then_some(limits)
    }
}
