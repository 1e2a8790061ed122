//! The storage traits, and their backends with SQLite and PostgreSQL.
//!
//! A method that changes something is atomic: it stores all its changes, with their audit entries,
//! or none. A method that reads sees one consistent state. The deletions of old data and
//! [`StoreMaintenance::check_integrity`] read and write separately. Callers create ids and times;
//! stores implement no business rules. `conformance.rs` is the test suite that every backend must
//! pass. Only [`sqlite`] and [`postgres`] depend on database drivers; they share `codec.rs`, `codes.rs`,
//! `objects.rs`, `records.rs`, `predicates.rs` and `summary.rs`, which know no SQL dialect.

pub mod account_lifecycle;
pub mod alerts;
pub mod allocations;
pub mod audit;
mod catalogue;
pub mod claims;
mod codec;
mod codes;
mod condition;
#[cfg(test)]
mod conformance;
pub mod consumption;
mod error;
pub mod fleet;
mod identities;
pub mod invites;
pub mod ledger;
pub mod maintenance;
pub mod migration;
mod objects;
pub mod operator_token;
pub mod password_resets;
pub mod people;
pub mod postgres;
mod predicates;
mod records;
mod requests;
mod responses;
mod schema;
pub mod sqlite;
mod summary;
pub mod traffic;

pub use catalogue::{Catalogue, CatalogueUpdate};
pub use consumption::ConsumptionTotals;
pub use error::{DiskFault, StoreError};
pub use fleet::{Changes, Nodes, SealKeys};
pub use identities::{Identities, Snapshot};
pub use invites::Invites;
pub use ledger::LedgerEntries;
pub use maintenance::{
    RetentionCutoff, RetentionTime, StoreCopy, StoreMaintenance, UnconfirmedTime,
};
pub use requests::{KeySum, MAX_LISTED_KEYS, RequestFilter, Requests, Summary, TimeUnit, Totals};
pub use responses::Responses;
pub use schema::{Schema, Upgrade};

pub use account_lifecycle::AccountLifecycle;
pub use alerts::Alerts;
pub use allocations::Allocations;
pub use audit::{AuditFilter, AuditLog};
pub use claims::IdempotencyClaims;
pub use operator_token::OperatorTokens;
pub use password_resets::PasswordResets;
pub use people::{FoundSession, People};
pub use traffic::TrafficReports;

/// A position in the request log, in the ledger or in the audit log. Each is append-only and has
/// its own positions, in ascending order. Zero is before the first row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub i64);

/// The whole store. A method with an `audit` parameter adds that entry in the transaction of its
/// change.
pub trait Store:
    Identities
    + Invites
    + AccountLifecycle
    + PasswordResets
    + People
    + OperatorTokens
    + Catalogue
    + Requests
    + Responses
    + AuditLog
    + LedgerEntries
    + ConsumptionTotals
    + StoreMaintenance
    + Nodes
    + Changes
    + SealKeys
    + Alerts
{
}
impl<
    T: Identities
        + Invites
        + AccountLifecycle
        + PasswordResets
        + People
        + OperatorTokens
        + Catalogue
        + Requests
        + Responses
        + AuditLog
        + LedgerEntries
        + ConsumptionTotals
        + StoreMaintenance
        + Nodes
        + Changes
        + SealKeys
        + Alerts,
> Store for T
{
}
