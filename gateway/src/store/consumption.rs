//! What was consumed so far of what is limited.

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;
use domain::consumption::Consumption;

/// Knows what was consumed so far of what is limited.
#[async_trait]
pub trait Consumed: Send + Sync {
    /// Returns the tokens of requests that came in since the day of `since` (in UTC), and what keys with a
    /// cap have spent ever. What is written later is not in it: it is asked once, at the start.
    async fn consumption(&self, since: Timestamp) -> Result<Consumption, StoreError>;
}
