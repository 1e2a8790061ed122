//! The nouns and rules of the product.
//!
//! No IO, no async, no wire format: everything else speaks in these types. Start with
//! [`record::RequestRecord`], which names most of them.

pub mod account;
pub mod account_name;
pub mod audit;
pub mod consumption;
pub mod difference;
pub mod durability;
pub mod endpoint;
pub mod expression;
pub mod health;
pub mod hold;
pub mod id;
pub mod idempotency;
pub mod key;
pub mod latency;
pub mod ledger;
pub mod limit;
pub mod model;
pub mod money;
pub mod plan;
pub mod price;
pub mod proof;
pub mod record;
pub mod refusal;
pub mod response;
pub mod source;
pub mod text;
pub mod upstream;
pub mod usage;
pub mod wire;

/// A value that a caller gave and that breaks a rule of the domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The field, as the admin contract names it.
    pub field: &'static str,
    /// What is wrong with it and what would be right.
    pub message: String,
}

impl Invalid {
    /// Says what is wrong with `field`.
    pub fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self { field, message: message.into() }
    }
}
