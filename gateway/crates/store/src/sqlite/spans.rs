//! The positions of an account's rows in the log and in the ledger.
//!
//! Neither has an index on the account, which would cost one index entry per row. A batch writes
//! the rows of an account adjacently, and each such span of rows is recorded once.

use std::sync::LazyLock;

use rusqlite::Connection;

use super::codec::{ReadColumn, parameters};
use super::rows::{Insertion, Values};
use crate::condition::{Condition, ConditionValue};
use domain::id::AccountId;

/// A table of rows that are numbered by `seq` and belong to accounts.
pub(super) struct SpanIndex {
    rows: &'static str,
    index: &'static str,
    insertion: Insertion,
}

/// A range of rows: the first and the last.
pub(super) type RowRange = (i64, i64);

/// All rows.
pub(super) const EVERYTHING: RowRange = (0, i64::MAX);

/// The request log.
pub(super) static REQUEST_SPANS: LazyLock<SpanIndex> =
    LazyLock::new(|| SpanIndex::of("requests", "request_runs"));
/// The ledger.
pub(super) static ENTRY_SPANS: LazyLock<SpanIndex> =
    LazyLock::new(|| SpanIndex::of("ledger_entries", "entry_runs"));

impl SpanIndex {
    fn of(rows: &'static str, index: &'static str) -> Self {
        Self { rows, index, insertion: Insertion::new(index, &["owner", "first", "last"], "") }
    }

    /// Records the owners of the rows from `first` on.
    pub(super) fn record(
        &self,
        tx: &Connection,
        first: i64,
        owners: impl Iterator<Item = AccountId>,
    ) -> rusqlite::Result<()> {
        let mut spans = Vec::<(AccountId, RowRange)>::new();
        for (seq, owner) in (first..).zip(owners) {
            match spans.last_mut() {
                Some((last_owner, (_, last))) if *last_owner == owner => *last = seq,
                _ => spans.push((owner, (seq, seq))),
            }
        }
        let bind = |(owner, (first, last)): &_, values: &mut Values<'_, '_>| {
            values.bind(parameters![owner, first, last])
        };
        self.insertion.execute(tx, &spans, bind)
    }

    /// Deletes the spans of `owner` that end before `first`.
    pub(super) fn delete_before(
        &self,
        tx: &Connection,
        owner: AccountId,
        first: i64,
    ) -> rusqlite::Result<()> {
        let sql =
            format!("DELETE FROM {} WHERE owner = ?1 AND first < ?2 AND last < ?2", self.index);
        tx.prepare_cached(&sql)?.execute(parameters![owner, first])?;
        Ok(())
    }

    /// Returns the recorded span of `owner` that contains the row `seq`.
    pub(super) fn find(
        &self,
        tx: &Connection,
        owner: AccountId,
        seq: i64,
    ) -> rusqlite::Result<Option<RowRange>> {
        let sql = format!(
            "SELECT first, last FROM {} WHERE owner = ? AND first <= ? ORDER BY first DESC LIMIT 1",
            self.index
        );
        let mut select = tx.prepare_cached(&sql)?;
        let mut rows = select.query(parameters![owner, seq])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (first, last) = (row.column(0)?, row.column(1)?);
        Ok((first..=last).contains(&seq).then_some((first, last)))
    }

    /// Returns the table expression for the rows of `owner`, or of all.
    pub(super) fn source(&self, owner: Option<AccountId>) -> String {
        match owner {
            // CROSS JOIN keeps SQLite from swapping the tables: the spans have the order of their
            // rows.
            Some(_) => format!("{} CROSS JOIN {}", self.index, self.rows),
            None => self.rows.to_owned(),
        }
    }

    /// Narrows `condition` to the rows of `owner`, or of all, from `first` to `last`.
    pub(super) fn narrow(
        &self,
        condition: &mut Condition,
        owner: Option<AccountId>,
        (first, last): RowRange,
    ) {
        let Some(owner) = owner else {
            condition.and_if_some("seq >= ?", Some(first).filter(|first| *first > 0));
            condition.and_if_some("seq <= ?", Some(last).filter(|last| *last < i64::MAX));
            return;
        };
        let clause = format!(
            "owner = ? AND first >= ifnull((SELECT max(first) FROM {} WHERE owner = ? AND first <= ?), 0) \
                AND first <= ? AND seq BETWEEN max(first, ?) AND min(last, ?) AND account = ?",
            self.index
        );
        // The row itself names its account: a wrong span must not show rows of another account.
        let values: [ConditionValue; 7] = [
            Box::new(owner),
            Box::new(owner),
            Box::new(first),
            Box::new(last),
            Box::new(first),
            Box::new(last),
            Box::new(owner),
        ];
        condition.and_with(&clause, values);
    }

    /// Returns the `ORDER BY` terms that sort the rows of `owner`, or of all, by number.
    pub(super) fn order(owner: Option<AccountId>, direction: &str) -> String {
        match owner {
            Some(_) => format!("first {direction}, seq {direction}"),
            None => format!("seq {direction}"),
        }
    }
}
