//! The printed form of limits, shared by all records with limits.

use proto::v1::Limits;
use serde::Serialize;

/// Limits, flattened into the record that has them.
#[derive(Serialize)]
pub(super) struct LimitFields {
    rpm: Option<u64>,
    tpm: Option<u64>,
    concurrency: Option<u64>,
    monthly_tokens: Option<u64>,
    limit_mode: &'static str,
}

impl From<Option<Limits>> for LimitFields {
    fn from(limits: Option<Limits>) -> Self {
        let limits = limits.unwrap_or_default();
        Self {
            rpm: limits.rpm,
            tpm: limits.tpm,
            concurrency: limits.concurrency,
            monthly_tokens: limits.monthly_tokens,
            limit_mode: if limits.observe() { "observe" } else { "enforce" },
        }
    }
}
