//! Plans: what an account is entitled to.

use super::id::{ModelId, PlanName};
use super::limit::Limits;
use super::money::Nanos;

/// The plan of a new account.
pub const DEFAULT_PLAN: &str = "free";

/// One plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub name: PlanName,
    /// What a new account on it is given once.
    pub trial_credit: Nanos,
    /// Limits over all keys of an account.
    pub limits: Limits,
    /// The models that it may use; empty means all.
    pub models: Vec<ModelId>,
}
