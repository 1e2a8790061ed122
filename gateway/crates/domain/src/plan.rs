//! Plans: trial credit, limits and models of an account.

use super::id::{ModelId, PlanName};
use super::limit::Limits;
use super::money::Nanos;

/// The plan of a new account.
pub const DEFAULT_PLAN: &str = "free";

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The unique name.
    pub name: PlanName,
    /// The credit that a new account receives once.
    pub trial_credit: Nanos,
    /// Limits over all keys of an account.
    pub limits: Limits,
    /// The models that its accounts may use; empty means all.
    pub models: Vec<ModelId>,
}
