//! Ledger entries. Balances change only through entries.

use jiff::Timestamp;

use super::id::{AccountId, RequestId};
use super::money::Nanos;

/// The house account, to which the operator's losses are booked. It belongs to no client.
pub const HOUSE: AccountId = AccountId(uuid::Uuid::nil());

/// The name of the house account in lists.
pub const HOUSE_NAME: &str = "house";

/// One change of one balance. Entries are append-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The account whose balance changes.
    pub account: AccountId,
    /// The change; charges are negative.
    pub amount: Nanos,
    /// The reason.
    pub kind: EntryKind,
    /// The time of the change.
    pub at: Timestamp,
}

/// The reason for a change of a balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The plan's trial credit, granted once.
    Trial,
    /// An operator's credit or debit, with the operator's reason.
    Credit(String),
    /// The cost of a request.
    Charge(RequestId),
    /// The part of a request's cost that its account could not pay. Only on the house account.
    Overrun(RequestId),
    /// An operator's correction of an error, with its description.
    Correction(String),
}
