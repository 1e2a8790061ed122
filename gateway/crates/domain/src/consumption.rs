//! The stored consumption, from which the counters in memory are initialised.

use super::id::{AccountId, KeyId, ModelId};
use super::money::Nanos;

/// Consumption so far of limited resources. Keys are counted by their
/// [origins](super::key::Key::origin), that is, per rotation chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consumption {
    /// Tokens per account, since the queried time.
    pub accounts: Vec<(AccountId, u64)>,
    /// Tokens per model, since the queried time.
    pub models: Vec<(ModelId, u64)>,
    /// Tokens per key, since the queried time.
    pub keys: Vec<(KeyId, u64)>,
    /// The lifetime charges of each key that has any.
    pub spent: Vec<(KeyId, Nanos)>,
}
