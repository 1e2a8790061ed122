//! Migrates the store of a stopped gateway: its schema, or from SQLite to PostgreSQL.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::recovery::{recover_ended, recover_journal};
use super::upgrade;
use crate::clock::Entropy;
use crate::config::Migration;
use crate::data_dir::{DATABASE, JOURNAL, lock};
use crate::secrets::seal::{KEY_FILE, Sealer};
use store::migration;
use store::sqlite::SqliteStore;

/// The number of rows, of all tables together, between two lines in the log.
const ROWS_PER_LOG_LINE: u64 = 250_000;

/// Upgrades the schema of the database of a data directory, after a copy of it. With a target, also copies the
/// database into an empty PostgreSQL database, and writes a comparison of both to `out`. The copy changes
/// nothing in the directory, except that the journal is replayed into its database.
///
/// # Errors
/// A gateway uses the directory, a database or a file is not usable, or the copy differs.
pub async fn migrate(
    migration: &Migration,
    entropy: Arc<dyn Entropy>,
    out: &mut dyn Write,
) -> Result<()> {
    let Migration { data_dir, target, is_dry_run } = migration;
    if *is_dry_run {
        return upgrade::describe(data_dir, target.as_ref(), out).await;
    }
    let path = data_dir.join(DATABASE);
    ensure!(!SqliteStore::is_uninitialized(&path)?, "there is no database `{}`", path.display());
    let _lock = lock(data_dir).await.context("stop the gateway first")?;
    upgrade::copy_before(data_dir)?;
    let Some(target) = target else {
        SqliteStore::open(&path)?.close().await;
        let schema = store::sqlite::SCHEMA;
        return writeln!(out, "`{}` has {schema}", path.display()).context("writing the result");
    };
    let store = SqliteStore::open(&path)?;
    let mut recovered = recover_journal(&data_dir.join(JOURNAL), &store).await?;
    let (ended, draining) = recover_ended(data_dir, &store, &mut recovered).await?;
    ensure!(
        draining.is_empty(),
        "a gateway that was replaced still finishes requests; wait until its process has ended"
    );
    recovered.commit(&store, None).await.context("replaying the journal")?;
    ended.discard(&store).await?;
    let seal_fingerprint = if data_dir.join(KEY_FILE).exists() {
        let sealer = Sealer::open(data_dir, entropy);
        let sealer =
            sealer.with_context(|| format!("reading `{}`", data_dir.join(KEY_FILE).display()))?;
        Some(sealer.fingerprint())
    } else {
        None
    };
    let mut copied = 0_u64;
    let log_progress = |table, rows: usize| {
        let before = copied;
        copied += rows as u64;
        if before / ROWS_PER_LOG_LINE < copied / ROWS_PER_LOG_LINE {
            tracing::info!(table, rows = copied, "copying");
        }
    };
    let comparison =
        migration::migrate(&store, target, seal_fingerprint.as_deref(), log_progress).await?;
    store.close().await;
    write!(out, "{comparison}").context("writing the comparison")?;
    ensure!(
        comparison.is_equal(),
        "the copy in `{target}` differs from its source, and no gateway will use it; delete that database"
    );
    writeln!(
        out,
        "\nBoth are the same. Start the gateway in the same data directory with --store {target}; then move \
         `{DATABASE}` out of it, which is not used any more."
    )
    .context("writing the comparison")
}
