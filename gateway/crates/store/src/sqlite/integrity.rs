//! Checks the integrity of the database and that it is writable.

use jiff::Timestamp;
use rusqlite::Connection;

use super::cancel::CancelHandle;
use super::codec::{ReadColumn, parameters};
use crate::StoreError;

/// Writes the time of the check, to test that writes succeed.
pub(super) fn record_check(tx: &Connection, at: Timestamp) -> Result<(), StoreError> {
    let sql = "INSERT INTO meta VALUES ('examined_at', ?) \
        ON CONFLICT DO UPDATE SET value = excluded.value";
    tx.prepare_cached(sql)?.execute(parameters![at.to_string()])?;
    Ok(())
}

/// Returns up to ten findings of corruption.
pub(super) fn quick_check(
    connection: &mut Connection,
    cancel: &CancelHandle,
) -> Result<Vec<String>, StoreError> {
    let mut pragma = connection.prepare("PRAGMA quick_check(10)")?;
    let found = pragma.query_map([], |row| row.column(0))?;
    let mut found = found.collect::<Result<Vec<String>, _>>()?;
    cancel.check()?;
    found.retain(|line| line != "ok");
    Ok(found)
}
