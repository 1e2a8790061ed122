//! The figures by which both databases are compared. The statements are valid on both.
//!
//! An exact sum of numbers can exceed 64 bits, so each statement returns the sum of their high
//! parts and the sum of their low 32 bits.

use std::collections::BTreeMap;

use domain::id::AccountId;

/// A figure: a sum over a table.
#[derive(Debug)]
pub(crate) struct Figure {
    /// What it is.
    pub(crate) name: &'static str,
    /// The table.
    table: &'static str,
    /// The column.
    column: &'static str,
}

/// The sums that are compared.
pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("ledger entries, nanodollars", "ledger_entries", "amount"),
    Figure::new("balances, nanodollars", "balances", "amount"),
    Figure::new("trial credit, nanodollars", "trial_days", "amount"),
    Figure::new("requests, cost in nanodollars", "requests", "cost"),
    Figure::new("requests, input tokens", "requests", "input"),
    Figure::new("requests, cached tokens", "requests", "cached"),
    Figure::new("requests, output tokens", "requests", "output"),
    Figure::new("requests, reasoning tokens", "requests", "reasoning"),
    Figure::new("requests, sum of cursors", "requests", "seq"),
    Figure::new("responses, bytes", "responses", "bytes"),
];

/// Returns the number, the high parts and the low parts of each account's entries.
pub(crate) const LEDGER_BY_ACCOUNT: &str = "SELECT account, count(*), \
    CAST(sum(amount >> 32) AS bigint), CAST(sum(amount & 4294967295) AS bigint) \
    FROM ledger_entries GROUP BY account";

/// The number and the exact sum of each account's ledger entries.
pub(crate) type AccountEntries = BTreeMap<AccountId, (i64, i128)>;

/// The figures of one database.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The rows of each of [`TABLES`](super::TABLES), then [`FIGURES`].
    pub(crate) numbers: Vec<i128>,
    /// The ledger.
    pub(crate) entries: AccountEntries,
}

impl Figure {
    const fn new(name: &'static str, table: &'static str, column: &'static str) -> Self {
        Self { name, table, column }
    }

    /// Returns the statement that computes it, as low and high parts.
    pub(crate) fn sql(&self) -> String {
        let Self { table, column, .. } = self;
        format!(
            "SELECT CAST(coalesce(sum({column} & 4294967295), 0) AS bigint), \
                CAST(coalesce(sum({column} >> 32), 0) AS bigint) FROM {table}"
        )
    }
}

/// Returns the sum of `low` parts and of `high` ones.
pub(crate) fn joined(low: i64, high: i64) -> i128 {
    (i128::from(high) << 32) + i128::from(low)
}
