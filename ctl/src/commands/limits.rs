//! How limits are printed, the same wherever something has them.

use proto::v1::Limits;
use serde::Serialize;

/// Limits, as they are printed within what they belong to.
#[derive(Serialize)]
pub(super) struct LimitFields {
    rpm: Option<u64>,
    tpm: Option<u64>,
    concurrency: Option<u64>,
}

impl From<Option<Limits>> for LimitFields {
    fn from(limits: Option<Limits>) -> Self {
        let limits = limits.unwrap_or_default();
        Self { rpm: limits.rpm, tpm: limits.tpm, concurrency: limits.concurrency }
    }
}
