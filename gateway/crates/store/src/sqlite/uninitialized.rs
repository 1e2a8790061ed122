//! Checks whether a file has a database schema.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::codec::ReadColumn;
use rusqlite::{Connection, OpenFlags};

/// The position of the schema version in the header of a database file: four bytes, big-endian.
const USER_VERSION: std::ops::Range<usize> = 60..64;

/// Returns whether the file at `path` has no schema or does not exist. Blocks on IO.
pub(super) fn is_uninitialized(
    path: &Path,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let header = header(path)?;
    if header.is_empty() {
        return Ok(true);
    }
    if has_schema(&header) {
        return Ok(false);
    }
    // The version may be in the write-ahead log only, which SQLite reads. SQLite itself refuses a
    // file that is not a database.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.column(0))?;
    Ok(version == 0)
}

/// Returns whether the file at `path`, without its write-ahead log, has a schema. Blocks on IO.
pub(super) fn has_schema_in_file(path: &Path) -> std::io::Result<bool> {
    Ok(has_schema(&header(path)?))
}

/// Reads the header of a database file up to the schema version; empty if there is no file.
fn header(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut header = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(USER_VERSION.end as u64).read_to_end(&mut header)?,
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(header)
}

fn has_schema(header: &[u8]) -> bool {
    header.get(USER_VERSION).is_some_and(|version| version != [0; 4])
}
