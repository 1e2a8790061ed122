//! Amounts of shared pools that are moved to one gateway, which alone can use them.
//!
//! Several gateways share the balances and limits of one store. A gateway moves a part of a pool to
//! itself before it admits requests, uses it in memory, and gives back what it does not need (the
//! escrow method). Invariant: what is available in a pool is its size minus all allocations, so
//! that gateways together never use more than there is. [`grant`] decides how much is moved.

use std::fmt;

use jiff::Timestamp;

use super::id::{AccountId, KeyId, ModelId};

/// A gateway takes at least this part of what is available, so that the number of requests to the
/// store grows with the logarithm of the pool's size; the rest remains for other gateways.
const AVAILABLE_DIVISOR: i64 = 4;

/// A shared amount that gateways take parts of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pool {
    /// The balance of an account, in nanodollars.
    Balance(AccountId),
    /// The part of a spending cap that the keys of this [origin](super::key::Key::origin) have not
    /// spent, in nanodollars.
    SpendCap(KeyId),
    /// The unused tokens of a monthly quota.
    MonthlyTokens {
        /// The owner of the quota.
        subject: LimitSubject,
        /// The start of the month, in UTC.
        month: Timestamp,
    },
    /// The requests that a limit admits in any minute.
    Requests(LimitSubject),
    /// The tokens that a limit admits in any minute.
    Tokens(LimitSubject),
    /// The concurrent requests that a limit admits.
    Concurrency(LimitSubject),
}

/// The owner of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LimitSubject {
    /// An account; the limits are those of its plan.
    Account(AccountId),
    /// A model, over all accounts.
    Model(ModelId),
    /// The keys of this [origin](super::key::Key::origin).
    Key(KeyId),
}

/// A request for a part of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationRequest {
    /// The pool.
    pub pool: Pool,
    /// The limit or the cap that bounds the pool; `None` for a balance, which the store knows. In
    /// units of the pool.
    pub limit: Option<i64>,
    /// The amount that waiting requests lack; zero if none waits. In units of the pool.
    pub needed: i64,
}

/// The answer to an [`AllocationRequest`], in units of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The amount that was moved to this gateway.
    pub granted: i64,
    /// The amount that remains available; negative if the pool was reduced below its allocations.
    pub available: i64,
    /// The amount that other gateways have.
    pub elsewhere: i64,
}

/// A request to gateways to give back what they do not need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    /// The pool.
    pub pool: Pool,
    /// The lacking amount, in units of the pool.
    pub needed: i64,
    /// The gateways that must answer.
    pub from: RecallScope,
}

/// The gateways that must answer a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallScope {
    /// All but the sender, whose requests lack the amount.
    Others,
    /// All, because the pool was reduced.
    All,
}

/// Returns how much of `available` a gateway gets whose requests lack `needed`: all that is needed
/// if there is as much, and otherwise all there is.
pub fn grant(available: i64, needed: i64) -> i64 {
    needed.max(available / AVAILABLE_DIVISOR).clamp(0, available.max(0))
}

/// Returns how much of `unused` a gateway gives back if another one lacks `needed`. At least half,
/// so that two gateways do not exchange small amounts in every request.
pub fn give_back(unused: i64, needed: i64) -> i64 {
    needed.max(unused - unused / 2).clamp(0, unused.max(0))
}

impl fmt::Display for LimitSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(id) => write!(f, "account:{id}"),
            Self::Model(id) => write!(f, "model:{id}"),
            Self::Key(id) => write!(f, "key:{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_covers_the_need_and_never_exceeds_what_is_available() {
        for (available, needed, granted) in [
            (100, 0, 25),
            (100, 10, 25),
            (100, 60, 60),
            (100, 300, 100),
            (3, 0, 0),
            (3, 1, 1),
            (0, 5, 0),
            (-7, 5, 0),
            (i64::MAX, 1, i64::MAX / 4),
        ] {
            assert_eq!(grant(available, needed), granted, "{available} {needed}");
        }
    }

    #[test]
    fn a_recall_returns_what_is_needed_or_half_of_the_unused_amount() {
        for (unused, needed, returned) in
            [(100, 10, 50), (100, 60, 60), (100, 300, 100), (1, 1, 1), (0, 1, 0), (-5, 1, 0)]
        {
            assert_eq!(give_back(unused, needed), returned, "{unused} {needed}");
        }
    }
}
