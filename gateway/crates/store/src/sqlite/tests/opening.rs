//! Tests of opening: side files, paths, and crashes during the creation.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rusqlite::Connection;

use super::{SqliteStore, batch, temp_database};
use crate::sqlite::codec::ReadColumn;
use crate::sqlite::{connect, enable_wal, migrations};
use crate::{Cursor, Requests};

/// A file in the working directory of the child process of [`opens_a_path_without_a_directory`].
const CHILD_MARKER: &str = "is-child";

#[tokio::test]
async fn only_its_own_left_over_copy_is_removed() {
    let (folder, path) = temp_database();
    let named_copy = folder.path().join("tollgate.copy");
    let store = SqliteStore::open(&named_copy).unwrap();
    store.commit(Arc::new(batch(0..3))).await.unwrap();
    drop(store);
    let left_over = folder.path().join("tollgate.db-copy");
    std::fs::write(&left_over, "unfinished").unwrap();
    drop(SqliteStore::open(&path).unwrap());
    assert!(!left_over.exists());
    let store = SqliteStore::open(&named_copy).unwrap();
    assert_eq!(store.newest().await.unwrap(), Cursor(3));
}

#[test]
fn opens_a_path_without_a_directory() {
    if Path::new(CHILD_MARKER).exists() {
        SqliteStore::open(Path::new("bare.db")).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(CHILD_MARKER), "").unwrap();
    let test = "sqlite::tests::opening::opens_a_path_without_a_directory";
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .current_dir(&folder)
        .status();
    assert!(status.unwrap().success());
    assert!(folder.path().join("bare.db").exists());
}

#[test]
fn an_interrupted_creation_is_completed_on_disk() {
    let (folder, path) = temp_database();
    let mut connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    migrations::run(&mut connection).unwrap();
    // Simulates a kill after the migrations, when the schema is only in the write-ahead log.
    let killed = folder.path().join("killed.db");
    std::fs::copy(&path, &killed).unwrap();
    std::fs::copy(path.with_extension("db-wal"), killed.with_extension("db-wal")).unwrap();
    let schema_version = || {
        let mut version = [0; 4];
        std::fs::File::open(&killed).unwrap().read_exact_at(&mut version, 60).unwrap();
        u32::from_be_bytes(version)
    };
    assert_eq!(schema_version(), 0);
    let _store = SqliteStore::open(&killed).unwrap();
    assert_ne!(schema_version(), 0);
}

#[test]
fn a_database_without_a_write_ahead_log_is_refused() {
    // A database in memory keeps its own journal mode.
    let refused = enable_wal(&Connection::open_in_memory().unwrap()).unwrap_err();
    assert!(refused.to_string().contains("`memory`"), "{refused}");
}

#[tokio::test]
async fn only_migrations_sort_in_temporary_files() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let temp_store = |connection: &Connection| -> i64 {
        connection.query_row("PRAGMA temp_store", [], |row| row.column(0)).unwrap()
    };
    let (default, memory) = (0, 2);
    assert_eq!(temp_store(&connect(&path).unwrap()), default);
    assert_eq!(store.write(move |tx| Ok(temp_store(tx))).await.unwrap(), memory);
    assert_eq!(store.read(move |tx| Ok(temp_store(tx))).await.unwrap(), memory);
}
