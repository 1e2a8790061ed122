//! Conditions that operators are notified of once, when they begin.

use jiff::Timestamp;

use super::id::{AccountId, KeyId, UpstreamName};
use super::money::Nanos;

/// The part of a spending cap, in percent, whose use is a condition.
pub const SPEND_CAP_PERCENT: i64 = 80;

/// The kind of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AlertKind {
    /// The balance of an account is below a bound.
    BalanceLow,
    /// A key has spent [`SPEND_CAP_PERCENT`] of its spending cap.
    SpendCapNear,
    /// A key expires soon.
    KeyExpiring,
    /// A gateway cannot use an upstream.
    UpstreamDown,
}

/// Identifies a condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlertId {
    /// The kind.
    pub kind: AlertKind,
    /// The object: the id of an account without hyphens, the id of a key (of the first one of its rotations for
    /// spending caps), or the name of an upstream.
    pub subject: String,
}

/// A condition of an account or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alert {
    /// The balance of an account is below the bound.
    BalanceLow {
        /// The account.
        account: AccountId,
        /// Its balance.
        balance: Nanos,
        /// The bound.
        bound: Nanos,
    },
    /// A key has spent most of its spending cap.
    SpendCapNear {
        /// The account of the key.
        account: AccountId,
        /// The key.
        key: KeyId,
        /// The first key of its chain of rotations, by which spending is counted.
        origin: KeyId,
        /// What was spent.
        spent: Nanos,
        /// The cap.
        cap: Nanos,
    },
    /// A key expires soon and has no successor.
    KeyExpiring {
        /// The account of the key.
        account: AccountId,
        /// The key.
        key: KeyId,
        /// The time of its expiry.
        expires_at: Timestamp,
    },
}

/// What counts as a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertRules {
    /// The time at which conditions are evaluated.
    pub now: Timestamp,
    /// The bound below which a balance is low.
    pub balance_below: Nanos,
    /// Keys that expire until this time expire soon.
    pub expiring_until: Timestamp,
}

/// The conditions that have changed since they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertChanges {
    /// Those that hold and are not recorded.
    pub begun: Vec<Alert>,
    /// Those that are recorded and do not hold any more.
    pub ended: Vec<AlertId>,
}

// === impl AlertId ===

impl AlertId {
    /// Identifies the condition that an upstream cannot be used.
    pub fn upstream_down(name: &UpstreamName) -> Self {
        Self { kind: AlertKind::UpstreamDown, subject: name.as_str().to_owned() }
    }
}

// === impl Alert ===

impl Alert {
    /// Returns the id.
    pub fn id(&self) -> AlertId {
        let (kind, subject) = match self {
            Self::BalanceLow { account, .. } => {
                (AlertKind::BalanceLow, account.0.simple().to_string())
            }
            Self::SpendCapNear { origin, .. } => {
                (AlertKind::SpendCapNear, origin.as_str().to_owned())
            }
            Self::KeyExpiring { key, .. } => (AlertKind::KeyExpiring, key.as_str().to_owned()),
        };
        AlertId { kind, subject }
    }
}
