//! Conditions on request records as people type them: `model:gpt-5 -status:completed cost>0.01`.
//!
//! One grammar for every list of requests. Pure: the caller says what time it is and what names mean.
//! Start with [`parse()`]; `value` reads what stands behind the colon or the sign.

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

pub use parse::{Names, parse};

/// What an expression asks for. All of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expression {
    /// That the request came in at or after this time.
    pub since: Option<Timestamp>,
    /// That it came in before this time.
    pub until: Option<Timestamp>,
    /// All else.
    pub terms: Vec<Term>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// What is looked at.
    pub test: Test,
    /// Whether it must not hold. What is unknown of a record holds nothing, and so not this either.
    pub negated: bool,
}

/// What a record may be tested for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It is of one of these accounts.
    Account(Vec<AccountId>),
    /// It is of one of these keys.
    Key(Vec<KeyId>),
    /// It is of one of these models.
    Model(Vec<ModelId>),
    /// It ended in one of these ways.
    Status(Vec<RequestStatus>),
    /// It asked for one of these endpoints.
    Endpoint(Vec<Endpoint>),
    /// Its client got one of these error codes.
    Error(Vec<String>),
    /// It asked for a stream, or did not.
    Stream(bool),
    /// It cost so much.
    Cost(Relation, Nanos),
    /// It used so many tokens, input and output together.
    Tokens(Relation, Tokens),
    /// It took so long.
    Duration(Relation, Duration),
    /// The first piece of its answer took so long.
    Ttft(Relation, Duration),
}

/// How a measure compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is more.
    Above,
    /// It is as much or more.
    AtLeast,
    /// It is less.
    Below,
    /// It is as much or less.
    AtMost,
}
