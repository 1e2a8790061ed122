//! The report of a ledger verification: the recomputed totals and the inconsistencies found.

use std::fmt;

use jiff::Timestamp;

use super::id::{AccountId, KeyId, RequestId};
use super::money::Nanos;

/// The result of a ledger verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationReport {
    /// The stored balances.
    pub balances: Vec<(AccountId, Nanos)>,
    /// The number of ledger entries.
    pub entries: u64,
    /// The number of charges among the entries.
    pub charges: u64,
    /// The number of request records.
    pub requests: u64,
    /// The number of rows with usage sums.
    pub sums: u64,
    /// The number of differences found, including those not in `differences`.
    pub found: u64,
    /// The first [`Self::MAX_EXAMPLES`] differences.
    pub differences: Vec<Difference>,
}

/// An inconsistency of the ledger. `Display` shows the expected and the actual value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A stored balance differs from the sum of its entries.
    Balance {
        /// The account.
        account: AccountId,
        /// The stored balance.
        stored: Nanos,
        /// The sum of the entries.
        entries: Nanos,
    },
    /// The balance in memory differs from the stored one.
    Memory {
        /// The account.
        account: AccountId,
        /// The stored balance.
        stored: Nanos,
        /// The balance in memory.
        memory: Nanos,
    },
    /// A charge differs from the cost in the request's record.
    Amount {
        /// The request.
        request: RequestId,
        /// The recorded cost; `None` if unknown.
        cost: Option<Nanos>,
        /// The charged amount.
        charged: Nanos,
    },
    /// A charge was booked to another account than the request's.
    Payer {
        /// The request.
        request: RequestId,
        /// The charged account.
        account: AccountId,
    },
    /// A request was charged more than once.
    Twice {
        /// The request.
        request: RequestId,
    },
    /// A request with a cost was not charged.
    Uncharged {
        /// The request.
        request: RequestId,
        /// The recorded cost.
        cost: Nanos,
    },
    /// An account's charges without a record do not match the cost of the deleted records.
    Unrecorded {
        /// The account.
        account: AccountId,
        /// The charges for requests without a record.
        charged: Nanos,
        /// The cost of the deleted records.
        removed: Nanos,
    },
    /// The usage sums of an hour do not match its request records.
    Sums {
        /// The start of the hour.
        hour: Timestamp,
    },
    /// The per-key sums of a day do not match its hourly sums.
    KeySums {
        /// The start of the day.
        day: Timestamp,
    },
    /// What a key has used does not match its sums by day.
    KeyUse {
        /// The key.
        key: KeyId,
    },
    /// A record is missing from the index by time.
    Time {
        /// The request.
        request: RequestId,
    },
    /// A record or an entry is missing from the index by account.
    Unlisted {
        /// The account.
        account: AccountId,
    },
}

impl VerificationReport {
    /// The maximum number of differences in the report.
    pub const MAX_EXAMPLES: usize = 100;

    /// Whether no differences were found.
    pub fn is_consistent(&self) -> bool {
        self.found == 0
    }

    /// Adds a difference to the report.
    pub fn add(&mut self, difference: Difference) {
        self.found += 1;
        if self.differences.len() < Self::MAX_EXAMPLES {
            self.differences.push(difference);
        }
    }
}

impl Difference {
    /// Returns the affected account, if known.
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Self::Balance { account, .. }
            | Self::Memory { account, .. }
            | Self::Payer { account, .. }
            | Self::Unrecorded { account, .. }
            | Self::Unlisted { account } => Some(*account),
            Self::Amount { .. }
            | Self::Twice { .. }
            | Self::Uncharged { .. }
            | Self::Sums { .. }
            | Self::KeySums { .. }
            | Self::KeyUse { .. }
            | Self::Time { .. } => None,
        }
    }

    /// Returns the affected request, if any.
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Self::Amount { request, .. }
            | Self::Payer { request, .. }
            | Self::Twice { request }
            | Self::Uncharged { request, .. }
            | Self::Time { request } => Some(*request),
            Self::Balance { .. }
            | Self::Memory { .. }
            | Self::Unrecorded { .. }
            | Self::Sums { .. }
            | Self::KeySums { .. }
            | Self::KeyUse { .. }
            | Self::Unlisted { .. } => None,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balance { stored, entries, .. } => {
                write!(f, "the stored balance is {stored} but its entries come to {entries}")
            }
            Self::Memory { stored, memory, .. } => {
                write!(f, "the balance in memory is {memory} but the stored one is {stored}")
            }
            Self::Amount { cost: Some(cost), charged, .. } => {
                write!(f, "{charged} was charged for a request whose record says {cost}")
            }
            Self::Amount { cost: None, charged, .. } => {
                write!(f, "{charged} was charged for a request whose cost is unknown")
            }
            Self::Payer { .. } => write!(f, "the request of another account was charged"),
            Self::Twice { .. } => write!(f, "the request was charged more than once"),
            Self::Uncharged { cost, .. } => {
                write!(f, "the request cost {cost} and was not charged")
            }
            Self::Unrecorded { charged, removed, .. } => write!(
                f,
                "{charged} was charged for requests without a record; records that were removed \
                    explain {removed}"
            ),
            Self::Sums { hour } => {
                write!(f, "the sums of the hour from {hour} are not those of its requests")
            }
            Self::KeySums { day } => {
                write!(f, "the sums of the keys of the day from {day} are not those of its hours")
            }
            Self::KeyUse { key } => {
                write!(f, "the tokens and the spending of key `{key}` are not those of its days")
            }
            Self::Time { .. } => write!(f, "the request's record is not found by its time"),
            Self::Unlisted { .. } => {
                write!(f, "a record or a ledger entry is not found by its account")
            }
        }
    }
}
