//! Inserts many rows of one table per statement.
//!
//! A statement that writes one row opens and closes a cursor on the table and on each index; one
//! that writes many does so once.

use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Statement};

/// The number of rows per statement.
const ROWS_PER_STATEMENT: usize = 32;

/// An insertion into one table.
pub(super) struct Insertion {
    one: String,
    many: String,
}

/// A statement whose values are bound one after another.
pub(super) struct Values<'a, 'tx> {
    statement: &'a mut Statement<'tx>,
    bound: usize,
}

impl Insertion {
    /// Creates an insertion of `columns` into `table`, with `rest`, such as an `ON CONFLICT` clause,
    /// after the values.
    ///
    /// If a row fails, the earlier rows of the statement stay (`OR FAIL`), so the caller must roll
    /// its transaction back. To undo only the statement, SQLite would have to copy each page before
    /// it changes the page; with `DO UPDATE` it does so nevertheless.
    pub(super) fn new(table: &str, columns: &[&str], rest: &str) -> Self {
        let row = format!("({})", vec!["?"; columns.len()].join(", "));
        let sql = |rows: usize| {
            let (columns, rows) = (columns.join(", "), vec![row.as_str(); rows].join(", "));
            format!("INSERT OR FAIL INTO {table} ({columns}) VALUES {rows} {rest}")
        };
        Self { one: sql(1), many: sql(ROWS_PER_STATEMENT) }
    }

    /// Creates an insertion of rows that are added to those of the same `group`. On overflow,
    /// SQLite yields a float, which the cast saturates.
    pub(super) fn adding(table: &str, group: &[&str], sums: &[&str]) -> Self {
        let add = |sum: &&str| format!("{sum} = CAST({sum} + excluded.{sum} AS INTEGER)");
        let add: Vec<_> = sums.iter().map(add).collect();
        let rest = format!("ON CONFLICT DO UPDATE SET {}", add.join(", "));
        Self::new(table, &[group, sums].concat(), &rest)
    }

    /// Writes `rows` in order, with the values that `bind` binds for each.
    pub(super) fn execute<T>(
        &self,
        tx: &Connection,
        rows: &[T],
        bind: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        self.execute_in_parts(tx, rows, bind, |_, _| Ok(()))
    }

    /// Like [`Self::execute`]; calls `written` with the rows of each statement and the number of rows
    /// written.
    pub(super) fn execute_in_parts<'a, T>(
        &self,
        tx: &Connection,
        rows: &'a [T],
        bind: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
        mut written: impl FnMut(&'a [T], usize) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let (many, rest) = rows.split_at(rows.len() - rows.len() % ROWS_PER_STATEMENT);
        for (sql, rows, at_once) in [(&self.many, many, ROWS_PER_STATEMENT), (&self.one, rest, 1)] {
            if rows.is_empty() {
                continue;
            }
            let mut statement = tx.prepare_cached(sql)?;
            for rows in rows.chunks(at_once) {
                statement.clear_bindings();
                let mut values = Values { statement: &mut statement, bound: 0 };
                rows.iter().try_for_each(|row| bind(row, &mut values))?;
                written(rows, statement.raw_execute()?)?;
            }
        }
        Ok(())
    }
}

impl Values<'_, '_> {
    /// Binds the next values. A third of those of a record are NULL, which is what an unbound parameter is.
    pub(super) fn bind(&mut self, values: &[&dyn ToSql]) -> rusqlite::Result<()> {
        values.iter().try_for_each(|value| {
            self.bound += 1;
            match value.to_sql()? {
                ToSqlOutput::Borrowed(ValueRef::Null) | ToSqlOutput::Owned(Value::Null) => Ok(()),
                value => self.statement.raw_bind_parameter(self.bound, value),
            }
        })
    }
}
