//! Ledger entries: the only thing that changes a balance.

use jiff::Timestamp;

use super::id::{AccountId, RequestId};
use super::money::Nanos;

/// The house: not somebody's account, but where losses are booked.
pub const HOUSE: AccountId = AccountId(uuid::Uuid::nil());

/// What the house is called in lists.
pub const HOUSE_NAME: &str = "house";

/// One change of one balance. Entries are only ever added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose balance.
    pub account: AccountId,
    /// By how much; charges are negative.
    pub amount: Nanos,
    /// Why.
    pub kind: EntryKind,
    /// When.
    pub at: Timestamp,
}

/// Why a balance changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The plan's trial credit, once.
    Trial,
    /// An operator added or took money; the text says why.
    Credit(String),
    /// A request was paid.
    Charge(RequestId),
    /// A request cost more than its account could pay. On the house's account only.
    Overrun(RequestId),
    /// An operator mended an error; the text says which.
    Correction(String),
}
