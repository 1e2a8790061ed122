//! The state that only the overview screen uses.

use super::fetched::Fetched;
use super::traffic::LimitUse;
use super::usage::Usage;

/// The overview screen.
#[derive(Debug, Default)]
pub struct Overview {
    /// The limits of the signed-in account with their current usage.
    pub limits: Fetched<Vec<LimitUse>>,
    /// The usage totals of the last 30 days.
    pub month: Fetched<Usage>,
}
