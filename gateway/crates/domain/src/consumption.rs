//! What was consumed so far of what is limited: where counters in memory start from.

use super::id::{AccountId, KeyId, ModelId};
use super::money::Nanos;

/// What was consumed so far of what is limited. Keys stand for themselves and all that took their
/// place: their [origins](super::key::Key::origin).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumption {
    /// Tokens of each account, since some moment.
    pub accounts: Vec<(AccountId, u64)>,
    /// Tokens of each model, since that moment.
    pub models: Vec<(ModelId, u64)>,
    /// Tokens of each key with a monthly quota, since that moment.
    pub keys: Vec<(KeyId, u64)>,
    /// What each key with a spending cap was charged, ever.
    pub spent: Vec<(KeyId, Nanos)>,
}
