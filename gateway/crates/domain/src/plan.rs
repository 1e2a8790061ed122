//! Plans: trial credit, limits and models of an account.

use super::id::{ModelId, PlanName};
use super::limit::Limits;
use super::money::Nanos;

/// The plan of a new account.
pub const DEFAULT_PLAN: &str = "free";

/// The maximum number of keys of an account on a plan that does not set one: far more than people and
/// programs need, and few enough to list and to look through.
pub const DEFAULT_MAX_KEYS: u32 = 100;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The unique name.
    pub name: PlanName,
    /// The credit that a new account receives once.
    pub trial_credit: Nanos,
    /// Limits over all keys of an account.
    pub limits: Limits,
    /// The number of usable keys from which an account can make no more.
    pub max_keys: u32,
    /// The models that its accounts may use; empty means all.
    pub models: Vec<ModelId>,
}
