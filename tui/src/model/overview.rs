//! The state of the overview, besides what other screens show, too.

use super::fetched::Fetched;
use super::traffic::LimitUse;
use super::usage::Usage;

/// The overview.
#[derive(Debug, Default)]
pub struct Overview {
    /// The limits that hold for the account, with their use.
    pub limits: Fetched<Vec<LimitUse>>,
    /// The sums of the last 30 days.
    pub month: Fetched<Usage>,
}
