//! The types and rules of the product: accounts, keys, models, prices, limits, ledger entries.
//!
//! Does no IO and no async work. All other crates use these types. Start with
//! [`record::RequestRecord`], which refers to most of them.

pub mod account;
pub mod account_name;
pub mod alert;
pub mod allocation;
pub mod audit;
pub mod audit_diff;
pub mod change;
pub mod consumption;
pub mod durability;
pub mod endpoint;
pub mod expression;
pub mod health;
pub mod histogram;
pub mod hold;
pub mod id;
pub mod idempotency;
pub mod key;
pub mod latency;
pub mod ledger;
pub mod limit;
pub mod model;
pub mod money;
pub mod month;
pub mod node;
pub mod person;
pub mod plan;
pub mod price;
pub mod record;
pub mod refusal;
pub mod response;
pub mod source;
pub mod text;
pub mod trace;
pub mod traced_content;
pub mod traffic;
pub mod upstream;
pub mod usage;
pub mod verification;
pub mod wire;

/// A validation error: a value from the caller that violates a rule of the domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValidationError {
    /// The field's name in the admin API.
    pub field: &'static str,
    /// The rule that the value violates, for the caller.
    pub message: String,
}

impl ValidationError {
    /// Creates the error for `field`.
    pub fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self { field, message: message.into() }
    }
}
