//! Upgrades of the schema: the copy of the SQLite database that is made before, and what would be done.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::data_dir::{self, BACKUPS, DATABASE};
use crate::database_copies;
use store::Upgrade;
use store::postgres::PostgresAddress;
use store::postgres::PostgresStore;
use store::sqlite::SqliteStore;

/// The name of a copy is this and the schema version of the upgrade that it was made for: `before-schema-23.db`.
const PREFIX: &str = "before-schema-";
/// The number of copies that are kept; those before the oldest upgrades are deleted.
const MAX_COPIES: usize = 3;
/// The space that must be left beside the copy, in bytes: the migrations write, too.
const SPARE_BYTES: u64 = 64 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

/// Copies the database in `dir` into its directory of backups if a start would migrate it. The caller must have locked
/// `dir`. Blocks.
///
/// # Errors
/// The database cannot be read or has a newer schema, there is no room, or the copy fails. The database is unchanged.
pub(super) fn copy_before(dir: &Path) -> Result<()> {
    let path = dir.join(DATABASE);
    let Some(upgrade) = SqliteStore::upgrade(&path)?.filter(is_pending) else { return Ok(()) };
    let backups = dir.join(BACKUPS);
    data_dir::make(&backups)?;
    let target = copy_path(dir, &upgrade);
    let needed = upgrade.bytes.saturating_add(SPARE_BYTES);
    let free = data_dir::free_bytes(&backups).context("reading the free space of the disk")?;
    ensure!(
        free >= needed,
        "the schema must be upgraded, but there is no room for the copy of the database before that: {} MiB are \
         needed on the disk of `{}`, and {} MiB are free",
        needed.div_ceil(MIB),
        backups.display(),
        free / MIB
    );
    let copying = || format!("copying the database to `{}` before the upgrade", target.display());
    // A name that is not that of a complete copy. A crash may have left the file.
    let unfinished = target.with_extension("unfinished");
    if unfinished.exists() {
        std::fs::remove_file(&unfinished).with_context(copying)?;
    }
    let bytes = SqliteStore::copy_file(&path, &unfinished).with_context(copying)?;
    std::fs::rename(&unfinished, &target)
        .and_then(|()| File::open(&backups)?.sync_all())
        .and_then(|()| File::open(dir)?.sync_all())
        .with_context(copying)?;
    let Upgrade { from, to, .. } = upgrade;
    tracing::info!(event = "schema_upgraded", from, to, copy = %target.display(), bytes, "upgrading the schema of the database");
    delete_oldest(&backups)
}

/// Writes to `out` what a start would do to the schema of the database in `dir`, or of `target`.
///
/// # Errors
/// The database cannot be read, or has a newer schema.
pub(super) async fn describe(
    dir: &Path,
    target: Option<&PostgresAddress>,
    out: &mut dyn Write,
) -> Result<()> {
    let path = dir.join(DATABASE);
    if let Some(target) = target
        && let Some(upgrade) = PostgresStore::upgrade(target).await?
    {
        write(out, &target.to_string(), &upgrade)?;
        return writeln!(out, "make a backup with the tools of PostgreSQL before")
            .context("writing the result");
    }
    let upgrade = SqliteStore::upgrade(&path)?;
    let upgrade = upgrade.with_context(|| format!("there is no database `{}`", path.display()))?;
    write(out, &path.display().to_string(), &upgrade)?;
    let mut lines = String::new();
    if is_pending(&upgrade) {
        let copy = copy_path(dir, &upgrade);
        lines = format!(
            "a copy of {} bytes would be made before, `{}`\n",
            upgrade.bytes,
            copy.display()
        );
    }
    if let Some(target) = target {
        lines =
            format!("{lines}then the database would be copied into `{target}`, which is empty\n");
    }
    out.write_all(lines.as_bytes()).context("writing the result")
}

fn write(out: &mut dyn Write, database: &str, upgrade: &Upgrade) -> Result<()> {
    let Upgrade { from, to, migrations, .. } = upgrade;
    let line = if migrations.is_empty() {
        format!("`{database}` has schema {from}; there is nothing to upgrade\n")
    } else {
        let names = migrations.join(", ");
        format!("`{database}` would be upgraded from schema {from} to {to}: {names}\n")
    };
    out.write_all(line.as_bytes()).context("writing the result")
}

fn is_pending(upgrade: &Upgrade) -> bool {
    !upgrade.migrations.is_empty()
}

fn copy_path(dir: &Path, upgrade: &Upgrade) -> PathBuf {
    dir.join(BACKUPS).join(format!("{PREFIX}{}.db", upgrade.to))
}

/// Deletes all copies in `backups` but those before the newest upgrades.
fn delete_oldest(backups: &Path) -> Result<()> {
    let schema = |name: &str| name.strip_prefix(PREFIX)?.strip_suffix(".db")?.parse::<u32>().ok();
    database_copies::list(backups, schema)
        .and_then(|copies| database_copies::delete_first(&copies, MAX_COPIES))
        .with_context(|| format!("deleting the oldest copies in `{}`", backups.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copies_before_the_newest_upgrades_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "before-schema-9.db",
            "before-schema-10.db",
            "before-schema-11.db",
            "before-schema-12.db",
            "before-schema-1.unfinished",
            "tollgate-1.db",
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        delete_oldest(dir.path()).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "before-schema-1.unfinished",
                "before-schema-10.db",
                "before-schema-11.db",
                "before-schema-12.db",
                "tollgate-1.db"
            ]
        );
    }
}
