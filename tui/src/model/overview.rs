//! The state of the overview, besides what other screens show, too.

use super::remote::Remote;
use super::traffic::LimitUse;
use super::usage::Usage;

/// The overview.
#[derive(Debug, Default)]
pub struct Overview {
    /// The limits that hold for the account, with their use.
    pub limits: Remote<Vec<LimitUse>>,
    /// The sums of the last 30 days.
    pub month: Remote<Usage>,
}
