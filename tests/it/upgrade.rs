//! Upgrades of the schema of a SQLite database, and the way back.

use std::path::{Path, PathBuf};
use std::process::Output;

use rusqlite::Connection;
use tests::process::{self, Gateway};
use tests::with_timeout;

/// Returns the migrations of SQLite, in their order, as (name, statements).
pub(super) fn migrations() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = dir.parent().unwrap().join("gateway/crates/store/src/sqlite/migrations");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// Makes a data directory as a gateway whose schema lacks the last `missing` migrations left it, and returns that
/// schema version.
fn old_data_dir(dir: &Path, missing: usize) -> usize {
    let migrations = migrations();
    let version = migrations.len() - missing;
    let database = Connection::open(dir.join("tollgate.db")).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    for (_, statements) in &migrations[..version] {
        database.execute_batch(statements).unwrap();
    }
    database.execute_batch("INSERT INTO meta VALUES ('mark', 'kept')").unwrap();
    database.pragma_update(None, "user_version", i64::try_from(version).unwrap()).unwrap();
    version
}

async fn migrate(dir: &Path, arguments: &[&str]) -> Output {
    let mut gateway = process::command("gateway");
    gateway.arg("migrate").args(arguments).arg("--data-dir").arg(dir);
    with_timeout("the migration", gateway.output()).await.unwrap()
}

fn schema(path: &Path) -> usize {
    let database = Connection::open(path).unwrap();
    let version: u32 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    version as usize
}

/// Returns the names and contents of all files.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_copy_of_the_database_is_made_before_its_upgrade() {
    let home = tempfile::tempdir().unwrap();
    let old = old_data_dir(home.path(), 2);
    let new = old + 2;
    let gateway = Gateway::start(home.path(), |_| {}).await;
    let log = gateway.stop().await;
    assert!(log.contains("upgrading the schema"), "{log}");
    let copy = home.path().join(format!("backups/before-schema-{new}.db"));
    assert_eq!((schema(&home.path().join("tollgate.db")), schema(&copy)), (new, old));
    let mark = "SELECT value FROM meta WHERE name = 'mark'";
    let mark: String =
        Connection::open(&copy).unwrap().query_row(mark, [], |row| row.get(0)).unwrap();
    assert_eq!(mark, "kept");
    let log = Gateway::start(home.path(), |_| {}).await.stop().await;
    assert!(!log.contains("upgrading the schema"), "{log}");
}

#[tokio::test]
async fn a_new_database_is_not_copied() {
    let home = tempfile::tempdir().unwrap();
    Gateway::start(home.path(), |_| {}).await.stop().await;
    assert!(!home.path().join("backups").exists());
}

#[tokio::test]
async fn a_dry_run_names_the_migrations_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let old = old_data_dir(home.path(), 2);
    let before = contents(home.path());
    let output = migrate(home.path(), &["--dry-run"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let migrations = migrations();
    let names: Vec<_> = migrations[old..].iter().map(|(name, _)| name.as_str()).collect();
    let expected = format!("from schema {old} to {}: {}\n", old + 2, names.join(", "));
    assert!(text.contains(&expected), "{text}");
    let size = before.iter().find(|(path, _)| path.ends_with("tollgate.db")).unwrap().1.len();
    assert!(text.contains(&format!("a copy of {size} bytes")), "{text}");
    assert_eq!(contents(home.path()), before);

    let gateway = Gateway::start(home.path(), |_| {}).await;
    let text = String::from_utf8(migrate(home.path(), &["--dry-run"]).await.stdout).unwrap();
    assert!(text.contains("nothing to upgrade"), "while a gateway serves: {text}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_the_version_that_wrote_it() {
    let home = tempfile::tempdir().unwrap();
    Gateway::start(home.path(), |_| {}).await.stop().await;
    let database = Connection::open(home.path().join("tollgate.db")).unwrap();
    let newer = "UPDATE meta SET value = '9.8.7 (fedcba)' WHERE name = 'written_by'";
    assert_eq!(database.execute(newer, []).unwrap(), 1);
    database.pragma_update(None, "user_version", 999).unwrap();
    drop(database);
    for arguments in [&["--dry-run"][..], &[]] {
        let output = migrate(home.path(), arguments).await;
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(text.contains("newer version of the gateway, 9.8.7 (fedcba)"), "{text}");
    }
    assert_eq!(schema(&home.path().join("tollgate.db")), 999);
}

/// Runs the commands of a block of the manual, in which `$DATA` is the data directory.
async fn run_manual(block: &str, data: &Path) -> String {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("gateway/README.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let (_, rest) = manual.split_once(&format!("<!-- {block} -->")).unwrap();
    let (text, _) = rest.split_once(&format!("<!-- /{block} -->")).unwrap();
    let commands: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(!commands.is_empty());
    let binaries = process::binary("gateway").parent().unwrap().display().to_string();
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("-ec").arg(commands.join("\n")).env_clear();
    shell.env("PATH", format!("{binaries}:/usr/bin:/bin")).env("DATA", data);
    let output = with_timeout("the commands", shell.output()).await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{commands:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_manual_leads_to_the_new_schema_and_back() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let old = old_data_dir(&data, 1);
    let printed = run_manual("upgrade", &data).await;
    assert!(printed.contains(&format!("from schema {old} to {}", old + 1)), "{printed}");
    assert_eq!(schema(&data.join("tollgate.db")), old + 1);
    Gateway::start(&data, |_| {}).await.stop().await;

    run_manual("rollback", &data).await;
    assert_eq!(schema(&data.join("tollgate.db")), old);
    for name in ["seal.key", "operator.token"] {
        let [now, newer] = [&data, &home.path().join("data.newer")].map(|dir| dir.join(name));
        assert_eq!(std::fs::read(now).unwrap(), std::fs::read(newer).unwrap());
    }
    assert!(!data.join("journal").exists(), "the journal belongs to the newer database");
}
