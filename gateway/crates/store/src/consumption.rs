//! The consumption of limited quantities.

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;
use domain::consumption::Consumption;

/// Reads the consumption of limited quantities.
#[async_trait]
pub trait ConsumptionTotals: Send + Sync {
    /// Returns the tokens of the requests that arrived since the start of the month that contains
    /// `at`, and the total spending of the keys, regardless of `at`. The gateway calls
    /// this at start, and counts later requests in memory.
    async fn consumption(&self, at: Timestamp) -> Result<Consumption, StoreError>;
}
