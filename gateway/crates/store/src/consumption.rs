//! The consumption of limited quantities.

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;
use domain::consumption::Consumption;

/// Reads the consumption of limited quantities.
#[async_trait]
pub trait ConsumptionTotals: Send + Sync {
    /// Returns the tokens of requests since the day of `since` (in UTC), and the total spending of
    /// keys with a cap. It is read once, at start; later records are not included.
    async fn consumption(&self, since: Timestamp) -> Result<Consumption, StoreError>;
}
