//! Reads everything for a copy into another database.

use std::collections::BTreeSet;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use tokio::sync::mpsc;

use super::SqliteStore;
use super::cancel::CancelHandle;
use super::codec::ReadColumn;
use super::error::CancelledError;
use crate::StoreError;
use crate::migration::{
    AccountEntries, Batch, FIGURES, Figure, Figures, LEDGER_BY_ACCOUNT, StoredValue, TABLES, Table,
    joined,
};

/// The largest number of rows in a batch.
const MAX_ROWS: usize = 8_192;
/// The size at which a batch ends, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

impl SqliteStore {
    /// Sends the rows of all tables, from one consistent state.
    ///
    /// # Cancel safety
    /// Dropping the future or the receiver ends the export.
    pub(crate) async fn export(&self, batches: mpsc::Sender<Batch>) -> Result<(), StoreError> {
        let export = move |source: &mut Connection, cancel: &CancelHandle| {
            let tx = source.transaction()?;
            TABLES.iter().try_for_each(|table| send_table(&tx, table, &batches, cancel))
        };
        self.background_reads.run(export).await
    }

    /// Returns the days since 1970 on which requests of the log arrived, in order.
    pub(crate) async fn logged_days(&self) -> Result<BTreeSet<i64>, StoreError> {
        self.read(|tx| {
            let mut select = tx.prepare("SELECT hour FROM request_hours")?;
            let days = select.query_map([], |row| Ok(row.column::<i64>(0)?.div_euclid(24)))?;
            Ok(days.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns the figures by which a copy is compared.
    pub(crate) async fn figures(&self) -> Result<Figures, StoreError> {
        self.background_reads.run(|source, _| figures(&*source.transaction()?)).await
    }
}

fn send_table(
    tx: &Connection,
    table: &'static Table,
    batches: &mpsc::Sender<Batch>,
    cancel: &CancelHandle,
) -> Result<(), StoreError> {
    let send = |rows| {
        let closed = |_| StoreError::Unavailable(CancelledError.into());
        batches.blocking_send(Batch { table, rows }).map_err(closed)
    };
    let mut select = tx.prepare(&table.select())?;
    let columns = select.column_count();
    let mut found = select.query([])?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        cancel.check()?;
        let values = (0..columns).map(|column| value(row, column));
        let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
        bytes += values.iter().map(StoredValue::bytes).sum::<usize>();
        rows.push(values);
        if rows.len() == MAX_ROWS || bytes >= MAX_BYTES {
            send(std::mem::take(&mut rows))?;
            bytes = 0;
        }
    }
    if rows.is_empty() { Ok(()) } else { send(rows) }
}

fn value(row: &Row<'_>, column: usize) -> rusqlite::Result<StoredValue> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => StoredValue::Null,
        ValueRef::Integer(number) => StoredValue::Int(number),
        ValueRef::Text(_) => StoredValue::Text(row.column(column)?),
        ValueRef::Blob(bytes) => StoredValue::Bytes(bytes.to_owned()),
        ValueRef::Real(_) => return Err(rusqlite::types::FromSqlError::InvalidType.into()),
    })
}

fn figures(tx: &Connection) -> Result<Figures, StoreError> {
    let sum =
        |sql: String| tx.query_row(&sql, [], |row| Ok(joined(row.column(0)?, row.column(1)?)));
    let counts = TABLES.iter().map(Table::count);
    let numbers = counts.chain(FIGURES.iter().map(Figure::sql)).map(sum);
    let numbers = numbers.collect::<rusqlite::Result<_>>()?;
    let mut select = tx.prepare(LEDGER_BY_ACCOUNT)?;
    let entries = select.query_map([], |row| {
        let sum = joined(row.column(3)?, row.column(2)?);
        Ok((row.column(0)?, (row.column(1)?, sum)))
    })?;
    Ok(Figures { numbers, entries: entries.collect::<rusqlite::Result<AccountEntries>>()? })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use rusqlite::hooks::{AuthAction, Authorization};

    use super::*;
    use crate::sqlite::migrations;

    /// Tables from which PostgreSQL has nothing, because it has other indexes.
    const INDEXES: [&str; 3] = ["entry_runs", "request_hours", "request_runs"];

    fn names(tx: &Connection, sql: &str, parameter: &str) -> Vec<String> {
        let mut select = tx.prepare(sql).unwrap();
        let names = select.query_map([parameter], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    }

    #[test]
    fn every_table_and_column_is_read() {
        let mut tx = Connection::open_in_memory().unwrap();
        migrations::run(&mut tx).unwrap();
        let mut expected = BTreeSet::new();
        let tables = "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite%'";
        for table in names(&tx, tables, "table") {
            if !INDEXES.contains(&&*table) {
                let columns = names(&tx, "SELECT name FROM pragma_table_info(?)", &table);
                expected.extend(columns.into_iter().map(|column| (table.clone(), column)));
            }
        }
        // SQLite says which columns a statement reads.
        let read = Arc::new(Mutex::new(BTreeSet::new()));
        let reads = read.clone();
        let record = move |context: rusqlite::hooks::AuthContext<'_>| {
            if let AuthAction::Read { table_name, column_name } = context.action {
                reads.lock().unwrap().insert((table_name.to_owned(), column_name.to_owned()));
            }
            Authorization::Allow
        };
        tx.authorizer(Some(record)).unwrap();
        for table in TABLES {
            drop(tx.prepare(&table.select()).unwrap());
        }
        for column in ["spent", "used_month", "used_tokens"] {
            // PostgreSQL adds up the sums by day instead.
            expected.remove(&("keys".to_owned(), column.to_owned()));
        }
        let missing: Vec<_> = expected.difference(&read.lock().unwrap()).cloned().collect();
        assert!(missing.is_empty(), "not copied: {missing:?}");
    }
}
