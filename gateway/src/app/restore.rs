//! Restores a backup into a new data directory, without a running gateway.
//!
//! The database gets its name last, so that a gateway refuses a directory in which a restore was interrupted.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use domain::verification::VerificationReport;
use store::sqlite::SqliteStore;
use store::{Identities, LedgerEntries, RequestFilter, Requests};

use crate::config::RestoreArgs;
use crate::control::bootstrap::TOKEN_FILE;
use crate::data_dir::{self, DATABASE, LOCK, lock};
use crate::secrets::file;
use crate::secrets::seal::KEY_FILE;

/// The name of the database while it is copied and verified.
const UNFINISHED: &str = "restore.unfinished";
/// The name of a migrated copy of an older database, on which its ledger is verified.
const MIGRATED: &str = "restore.migrated";

/// Copies a backup into a data directory that is empty or missing, verifies the copy and its ledger, and writes what
/// was found to `out`. The schema of the backup is kept; the next start upgrades it.
///
/// # Errors
/// The directory is in use or not empty; the backup cannot be read, has a newer schema or is damaged. If its ledger
/// has differences, it is restored nevertheless.
pub async fn restore(arguments: &RestoreArgs, out: &mut dyn Write) -> Result<()> {
    let RestoreArgs { file, to: dir, secrets_from } = arguments;
    let upgrade = SqliteStore::upgrade(file)?;
    let upgrade =
        upgrade.with_context(|| format!("`{}` is not a database of a gateway", file.display()))?;
    let secrets = secrets(secrets_from.as_deref());
    for path in &secrets {
        ensure!(path.is_file(), "`{}` is missing", path.display());
    }
    data_dir::make(dir)?;
    let _lock = lock(dir).await?;
    ensure_empty(dir)?;
    let unfinished = dir.join(UNFINISHED);
    let bytes = SqliteStore::copy_file(file, &unfinished)
        .with_context(|| format!("copying `{}`", file.display()))?;
    let found = if upgrade.migrations.is_empty() {
        verify(&unfinished).await?
    } else {
        // Opening a database migrates it.
        let migrated = dir.join(MIGRATED);
        SqliteStore::copy_file(&unfinished, &migrated).context("copying the backup")?;
        let found = verify(&migrated).await;
        std::fs::remove_file(&migrated).context("deleting the migrated copy")?;
        found?
    };
    for path in &secrets {
        let name = path.file_name().context("a secret has no name")?;
        file::copy(path, dir, name).with_context(|| format!("copying `{}`", path.display()))?;
    }
    std::fs::rename(&unfinished, dir.join(DATABASE))
        .and_then(|()| File::open(dir)?.sync_all())
        .context("naming the database")?;
    report(&found, upgrade.from, bytes, arguments, out).context("writing the result")?;
    let differences = found.ledger.found;
    if differences > 0 {
        bail!("the ledger of the backup has {differences} differences; it was restored as it is");
    }
    Ok(())
}

/// What is in a backup.
struct Found {
    ledger: VerificationReport,
    accounts: usize,
    newest: Option<jiff::Timestamp>,
}

/// Verifies the ledger of the database at `path`.
async fn verify(path: &Path) -> Result<Found> {
    let store = SqliteStore::open(path)?;
    let found = Found {
        ledger: store.verify_ledger().await.context("verifying the ledger")?,
        accounts: store.load().await.context("reading the accounts")?.accounts.len(),
        newest: store
            .requests_before(&RequestFilter::default(), None, 1)
            .await
            .context("reading the newest record")?
            .first()
            .map(|(_, record)| record.started_at),
    };
    // Writes the log into the file.
    store.close().await;
    Ok(found)
}

fn report(
    found: &Found,
    schema: u32,
    bytes: u64,
    arguments: &RestoreArgs,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let RestoreArgs { file, to, secrets_from } = arguments;
    let (from, to) = (file.display(), to.display());
    writeln!(out, "restored `{from}` to `{to}`: {bytes} bytes, schema {schema}, undamaged")?;
    let Found { ledger, accounts, newest } = found;
    let newest = newest.map_or_else(|| "none".to_owned(), |time| format!("{time:.0}"));
    writeln!(
        out,
        "{accounts} accounts, {} request records (the newest: {newest}), {} ledger entries",
        ledger.requests, ledger.entries
    )?;
    if ledger.found == 0 {
        writeln!(out, "balances, entries, charges and sums agree")?;
    }
    for difference in &ledger.differences {
        writeln!(out, "{difference}")?;
    }
    if secrets_from.is_none() {
        writeln!(out, "copy `{KEY_FILE}` and `{TOKEN_FILE}` of the old data directory to `{to}`")?;
    }
    writeln!(out, "start the gateway with --data-dir {to}")
}

/// Returns the secrets of a data directory: `seal.key` and `operator.token`.
fn secrets(dir: Option<&Path>) -> Vec<PathBuf> {
    dir.map_or_else(Vec::new, |dir| [KEY_FILE, TOKEN_FILE].map(|name| dir.join(name)).into())
}

/// Fails if `dir` has other files than the lock.
fn ensure_empty(dir: &Path) -> Result<()> {
    let reading = || format!("reading `{}`", dir.display());
    for entry in std::fs::read_dir(dir).with_context(reading)? {
        let name = entry.with_context(reading)?.file_name();
        ensure!(
            name == LOCK,
            "`{}` is not empty (it has `{}`); restore into a new directory",
            dir.display(),
            name.display()
        );
    }
    Ok(())
}
