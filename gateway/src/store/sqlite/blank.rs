//! Whether a file holds a database of ours at all.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::codec::ReadColumn;
use rusqlite::{Connection, OpenFlags};

/// Where the header of a database file has the schema's version, as four bytes in network order.
const USER_VERSION: std::ops::Range<usize> = 60..64;

/// Returns whether there is no schema in the file at `path`, or no file. Blocks.
pub(super) fn is_blank(path: &Path) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let mut header = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(USER_VERSION.end as u64).read_to_end(&mut header)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    if header.is_empty() {
        return Ok(true);
    }
    if header.get(USER_VERSION).is_some_and(|version| version != [0; 4]) {
        return Ok(false);
    }
    // The version may be in the write-ahead log alone, which SQLite reads. A file that is no database is
    // its to refuse.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.column(0))?;
    Ok(version == 0)
}
