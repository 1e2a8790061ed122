//! Reads a database that is not open: its schema version, and copies of it.
//!
//! Nothing here changes the database. A file without a write-ahead log is opened as immutable,
//! because SQLite would otherwise create the log's files.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::cancel::CancelHandle;
use super::{copy, migrations, uninitialized};
use crate::{StoreError, Upgrade};

/// Returns what a start would do to the schema of the database at `path`; `None` if it has none.
pub(super) fn find(
    path: &Path,
) -> Result<Option<Upgrade>, Box<dyn std::error::Error + Send + Sync>> {
    if !path.exists() || std::fs::metadata(path)?.len() == 0 {
        return Ok(None);
    }
    let from = migrations::found_version(&connect_read_only(path)?)?;
    if from == 0 && !uninitialized::has_schema_in_file(path)? {
        return Ok(None);
    }
    let bytes = std::fs::metadata(path)?.len() + log_bytes(path);
    let missing = &migrations::NAMES[usize::try_from(from)?..];
    Ok(Some(Upgrade { from, to: migrations::VERSION, migrations: missing, bytes }))
}

/// The secrets that may be encrypted. A database with an older schema lacks some of these columns.
const SEALED: [&str; 4] = [
    "SELECT credential FROM upstreams WHERE credential_kind = 'sealed'",
    "SELECT credential FROM further_credentials WHERE kind = 'sealed'",
    "SELECT proxy_password FROM upstreams WHERE proxy_password_kind = 'sealed'",
    "SELECT client_key FROM upstreams WHERE client_key IS NOT NULL",
];

/// Returns the encrypted secrets of the database at `path`, which another process may use; none if it does not exist.
pub(super) fn sealed_secrets(path: &Path) -> rusqlite::Result<Vec<Vec<u8>>> {
    let mut secrets = Vec::new();
    if !path.exists() {
        return Ok(secrets);
    }
    let database = connect_read_only(path)?;
    for sql in SEALED {
        let Ok(mut select) = database.prepare(sql) else { continue };
        let found = select.query_map([], |row| row.get(0))?;
        secrets.extend(found.collect::<Result<Vec<Vec<u8>>, _>>()?);
    }
    Ok(secrets)
}

/// Copies the database at `path` into the new file `target`, checks the copy and syncs it.
pub(super) fn copy_file(path: &Path, target: &Path) -> Result<u64, StoreError> {
    let copy = copy::copy_into(&mut connect_read_only(path)?, target, &CancelHandle::default())?;
    let file = File::open(target)?;
    file.sync_all()?;
    let bytes = file.metadata()?.len();
    copy.keep();
    Ok(bytes)
}

fn connect_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let path = path.display().to_string();
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let immutable = if log_bytes(Path::new(&path)) == 0 { "?immutable=1" } else { "" };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{escaped}{immutable}"), flags)
}

/// Returns the size of the write-ahead log in bytes; zero if there is none.
fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(PathBuf::from(log)).map_or(0, |log| log.len())
}
