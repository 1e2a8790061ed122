//! The proof of the ledger: what was recomputed, and what does not add up.

use std::fmt;

use jiff::Timestamp;

use super::id::{AccountId, RequestId};
use super::money::Nanos;

/// What a proof read, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The stored balances.
    pub balances: Vec<(AccountId, Nanos)>,
    /// How many ledger entries there are.
    pub entries: u64,
    /// How many of them are charges.
    pub charges: u64,
    /// How many request records there are.
    pub requests: u64,
    /// How many rows of sums there are.
    pub sums: u64,
    /// How many differences were found.
    pub found: u64,
    /// The first of them.
    pub differences: Vec<Difference>,
}

/// One thing that does not add up. `Display` says what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A stored balance is not the sum of its entries.
    Balance {
        /// Whose.
        account: AccountId,
        /// What is stored.
        stored: Nanos,
        /// What its entries come to.
        entries: Nanos,
    },
    /// The balance in memory is not the stored one.
    Memory {
        /// Whose.
        account: AccountId,
        /// What is stored.
        stored: Nanos,
        /// What is in memory.
        memory: Nanos,
    },
    /// A charge is of another amount than its record.
    Amount {
        /// Of this request.
        request: RequestId,
        /// What the record says; `None` if it says nothing.
        cost: Option<Nanos>,
        /// What was charged.
        charged: Nanos,
    },
    /// A charge is on another account than its record.
    Payer {
        /// Of this request.
        request: RequestId,
        /// Who paid.
        account: AccountId,
    },
    /// A request was charged more than once.
    Twice {
        /// This request.
        request: RequestId,
    },
    /// A request that cost something was not charged.
    Uncharged {
        /// This request.
        request: RequestId,
        /// What it cost.
        cost: Nanos,
    },
    /// An account's charges without a record are not those of the records that were removed.
    Unrecorded {
        /// Whose.
        account: AccountId,
        /// What was charged for requests without a record.
        charged: Nanos,
        /// What the removed records cost.
        removed: Nanos,
    },
    /// The sums of an hour are not those of its requests.
    Sums {
        /// When the hour begins.
        hour: Timestamp,
    },
    /// The sums of the keys of a day are not those of its hours.
    KeySums {
        /// When the day begins.
        day: Timestamp,
    },
    /// A record is not found by its time.
    Time {
        /// Of this request.
        request: RequestId,
    },
    /// A record or an entry is not found by its account.
    Unlisted {
        /// Whose it is.
        account: AccountId,
    },
}

impl Proof {
    /// How many differences are kept.
    pub const MAX_EXAMPLES: usize = 100;

    /// Whether everything adds up.
    pub fn holds(&self) -> bool {
        self.found == 0
    }

    /// Takes note of a difference.
    pub fn note(&mut self, difference: Difference) {
        self.found += 1;
        if self.differences.len() < Self::MAX_EXAMPLES {
            self.differences.push(difference);
        }
    }
}

impl Difference {
    /// The account that it is about, where that is known.
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
            | Self::Time { .. } => None,
        }
    }

    /// The request that it is about, where it is about one.
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
            Self::Time { .. } => write!(f, "the request's record is not found by its time"),
            Self::Unlisted { .. } => {
                write!(f, "a record or a ledger entry is not found by its account")
            }
        }
    }
}
