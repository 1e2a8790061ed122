//! Filter expressions over request records, such as `model:gpt-5 -status:completed cost>0.01`.
//!
//! All request lists use this grammar. Pure: the caller supplies the current time and resolves
//! names. Start with [`parse()`]; `value` parses the values of terms.

mod parse;
#[cfg(test)]
mod tests;
mod value;

use std::time::Duration;

use jiff::Timestamp;

use super::endpoint::Endpoint;
use super::id::{AccountId, KeyId, ModelId};
use super::money::Nanos;
use super::record::RequestStatus;
use super::usage::Tokens;

pub use parse::{Resolver, parse};

/// A parsed expression: the conjunction of all its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expression {
    /// The request arrived at or after this time.
    pub since: Option<Timestamp>,
    /// The request arrived before this time.
    pub until: Option<Timestamp>,
    /// All other conditions.
    pub terms: Vec<Term>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The condition without its sign.
    pub predicate: Predicate,
    /// Whether the condition must not hold. An unknown value satisfies neither a predicate nor its
    /// negation.
    pub negated: bool,
}

/// A predicate of one field of a request record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predicate {
    /// The account is one of these.
    Account(Vec<AccountId>),
    /// The key is one of these.
    Key(Vec<KeyId>),
    /// The model is one of these.
    Model(Vec<ModelId>),
    /// The status is one of these.
    Status(Vec<RequestStatus>),
    /// The endpoint is one of these.
    Endpoint(Vec<Endpoint>),
    /// The error code is one of these.
    Error(Vec<String>),
    /// Whether the client requested a stream.
    Stream(bool),
    /// Compares the cost.
    Cost(Comparison, Nanos),
    /// Compares the number of tokens, input and output together.
    Tokens(Comparison, Tokens),
    /// Compares the duration.
    Duration(Comparison, Duration),
    /// Compares the time to the first part of the answer.
    Ttft(Comparison, Duration),
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}
