//! The state that only the overview screen uses.

use super::fetched::Fetched;
use super::traffic::{ErrorCount, LimitUse};
use super::usage::{Period, Usage};

/// The overview screen.
#[derive(Debug, Default)]
pub struct Overview {
    /// The limits of the signed-in account with their current usage.
    pub limits: Fetched<Vec<LimitUse>>,
    /// The usage totals of the last 30 days.
    pub month: Fetched<Usage>,
    /// The usage of the last hour by minute, oldest first, from the store. The traffic stream knows
    /// only what the running gateway has served.
    pub minutes: Vec<Period>,
    /// The errors of the last hour, from the store.
    pub errors: Vec<ErrorCount>,
}
