//! Rows of one table, many in one statement.
//!
//! A statement that writes one row opens, moves and closes a cursor on the table and on each index for
//! it; one that writes many does so once, and finds each next row's place from the one before.

use rusqlite::types::ToSql;
use rusqlite::{CachedStatement, Connection};

/// How many rows a long list is cut into.
const MANY: usize = 32;

/// An insertion into one table.
pub(super) struct Insertion {
    one: String,
    many: String,
}

/// A statement whose values are bound one after another.
pub(super) struct Values<'a> {
    statement: CachedStatement<'a>,
    bound: usize,
}

impl Insertion {
    /// An insertion of `columns` into `table`, with `rest` behind the values.
    pub(super) fn new(table: &str, columns: &[&str], rest: &str) -> Self {
        let row = format!("({})", vec!["?"; columns.len()].join(", "));
        let sql = |rows: usize| {
            let (columns, rows) = (columns.join(", "), vec![row.as_str(); rows].join(", "));
            format!("INSERT INTO {table} ({columns}) VALUES {rows} {rest}")
        };
        Self { one: sql(1), many: sql(MANY) }
    }

    /// Writes `rows` in their order, with the values that `bind` binds of each. Calls `written` with the
    /// rows of each statement and with how many of them it has written.
    pub(super) fn run<'a, T>(
        &self,
        tx: &Connection,
        rows: &'a [T],
        bind: impl Fn(&T, &mut Values<'_>) -> rusqlite::Result<()>,
        mut written: impl FnMut(&'a [T], usize) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let (many, rest) = rows.as_chunks::<MANY>();
        let many = many.iter().map(|rows| (self.many.as_str(), rows.as_slice()));
        let rest = rest.chunks(1).map(|row| (self.one.as_str(), row));
        for (sql, rows) in many.chain(rest) {
            let mut values = Values { statement: tx.prepare_cached(sql)?, bound: 0 };
            rows.iter().try_for_each(|row| bind(row, &mut values))?;
            written(rows, values.statement.raw_execute()?)?;
        }
        Ok(())
    }
}

impl Values<'_> {
    /// Binds the next values.
    pub(super) fn bind(&mut self, values: &[&dyn ToSql]) -> rusqlite::Result<()> {
        values.iter().try_for_each(|value| {
            self.bound += 1;
            self.statement.raw_bind_parameter(self.bound, value)
        })
    }
}
