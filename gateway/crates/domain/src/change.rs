//! The order of changes of accounts, keys and the catalogue among several gateways.
//!
//! `tests/directory_model` checks these rules in all orders of changes, readings and failovers.

/// The place of a change in the order of changes. The default is before the first one.
///
/// A failover of the database that loses changes uses their numbers again, in a later timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeSeq {
    /// The history of the database that has the change. Each promotion of a standby begins another one.
    pub timeline: i64,
    /// Its number.
    pub number: i64,
}

/// What a gateway must read to have all changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unapplied {
    /// It has all.
    Nothing,
    /// The changes after those that it has.
    Changes,
    /// All objects: changes that it lacks were deleted, or changes that it has may have been lost.
    Everything,
}

impl ChangeSeq {
    /// Whether a directory with the changes up to this one has `other`, too.
    pub const fn includes(self, other: Self) -> bool {
        self.timeline == other.timeline && self.number >= other.number
    }

    /// Returns what a directory with the changes up to this one must read of a database whose newest change is
    /// `newest`. `has_next` says whether the database still has the change after this one.
    pub const fn unapplied(self, newest: Self, has_next: bool) -> Unapplied {
        if self.includes(newest) {
            Unapplied::Nothing
        } else if self.timeline == newest.timeline && has_next {
            Unapplied::Changes
        } else {
            Unapplied::Everything
        }
    }
}
