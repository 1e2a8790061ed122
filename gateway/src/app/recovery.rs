//! Restores what an earlier process left in the journal, in the store and in the data directory.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::Startup;
use super::storage::Storage;
use crate::catalogue;
use crate::config::Config;
use crate::control::bootstrap::{self, InitialState, Seed};
use crate::data_dir::JOURNAL;
use crate::hand_over::{DrainingDir, DrainingLock};
use crate::ledger::journal::{Journal, Recovered};
use crate::secrets::seal::Sealer;
use domain::durability::Durability;
use store::{Cursor, Snapshot, Store};

/// The accounts, keys and balances from which a gateway continues.
pub(super) struct RecoveredState {
    /// The journal of this process; the records of earlier ones are in the store.
    pub(super) journal: Journal,
    /// The content of the store.
    pub(super) snapshot: Snapshot,
    /// The cursor of the newest request record.
    pub(super) newest: Cursor,
}

/// What a start found and made.
pub(super) struct Recovery {
    pub(super) state: RecoveredState,
    /// The directories of replaced processes that still finish their requests.
    pub(super) draining: Vec<DrainingDir>,
    pub(super) secrets: Secrets,
}

/// The secrets of a gateway itself.
pub(super) struct Secrets {
    /// The sealer of stored secrets.
    pub(super) sealer: Arc<Sealer>,
    /// SHA-256 of the operator token.
    pub(super) operator_token: [u8; 32],
}

/// Stores the records that are only in the journal, gives back what this gateway had of shared balances, limits and
/// idempotency keys, and reads the store and the secrets, or makes them at the first start.
///
/// # Errors
/// The journal, the store or a secret is not usable, or the journal belongs to another store.
pub(super) async fn recover(startup: &Startup<'_>, storage: &Storage) -> Result<Recovery> {
    let Startup { config, entropy, .. } = startup;
    let (store, clock) = (&*storage.store, &*storage.clock);
    let seed = if config.simulator { catalogue::simulated(clock.now()) } else { Seed::default() };
    let (journal, draining) = replay_journal(config, storage).await?;
    if let Some(claims) = &storage.idempotency_claims {
        claims.release_earlier_claims().await.context("releasing claims of idempotency keys")?;
    }
    let dir = &config.data_dir;
    let prepared = bootstrap::prepare(dir, &config.seal_key, store, clock, entropy, &seed).await;
    if prepared.is_err() {
        // A node that has never served must not look as if it was killed.
        storage.close().await;
    }
    let InitialState { snapshot, newest, sealer, operator_token } = prepared?;
    let secrets = Secrets { sealer: Arc::new(sealer), operator_token };
    Ok(Recovery { state: RecoveredState { journal, snapshot, newest }, draining, secrets })
}

/// Replays the journals of earlier processes into the store, and begins that of this process. Returns the directories of
/// processes that still run.
async fn replay_journal(config: &Config, storage: &Storage) -> Result<(Journal, Vec<DrainingDir>)> {
    let (dir, store) = (&config.data_dir.join(JOURNAL), &*storage.store);
    let mut recovered = recover_journal(dir, store).await?;
    let (ended, draining) = recover_ended(&config.data_dir, store, &mut recovered).await?;
    let opening = || format!("opening the journal in `{}`", dir.display());
    let journal = Journal::create(dir, &recovered).with_context(opening)?;
    let journal = match config.durability {
        Durability::Process => journal,
        Durability::Power => journal.with_sync().context("starting to sync the journal")?,
    };
    let allocations = storage.allocations();
    let replayed = recovered.commit(store, allocations.as_deref()).await;
    replayed.context("replaying the journal")?;
    ended.discard(store).await?;
    if let Some(allocations) = allocations {
        // What an earlier process had; its records are stored now.
        allocations.give_back_all().await.context("giving back shared balances and limits")?;
    }
    Ok((journal, draining))
}

/// Reads what an earlier process left in the journal in `dir`, and checks that it belongs to `store`.
pub(super) async fn recover_journal(dir: &Path, store: &dyn Store) -> Result<Recovered> {
    let opening = || format!("opening the journal in `{}`", dir.display());
    let recovered = read_journal(dir)?;
    recovered.check_accounts(store).await.with_context(opening)?;
    Ok(recovered)
}

/// Reads the journal in `dir`.
pub(super) fn read_journal(dir: &Path) -> Result<Recovered> {
    Journal::recover(dir).with_context(|| format!("opening the journal in `{}`", dir.display()))
}

/// The directories of replaced processes that have ended, whose journals were read.
#[derive(Default)]
pub(super) struct Ended(Vec<(DrainingDir, DrainingLock, bool)>);

/// Reads what replaced processes have left in the data directory `data` that have ended, and adds it to `recovered`. Returns
/// their directories, and those of processes that still run.
pub(super) async fn recover_ended(
    data: &Path,
    store: &dyn Store,
    recovered: &mut Recovered,
) -> Result<(Ended, Vec<DrainingDir>)> {
    let (mut ended, mut draining) = (Ended::default(), Vec::new());
    for dir in DrainingDir::find_all(data).context("reading the data directory")? {
        let lock = dir.try_lock();
        let Some(lock) = lock.with_context(|| format!("locking `{}`", dir.path().display()))?
        else {
            draining.push(dir);
            continue;
        };
        let left = recover_journal(dir.path(), store).await?;
        let has_damage = left.has_damage();
        recovered.append(left);
        ended.0.push((dir, lock, has_damage));
    }
    Ok((ended, draining))
}

// === impl Ended ===

impl Ended {
    /// Stores the responses in the directories, and removes these. Their journals must be in the store.
    pub(super) async fn discard(self, store: &dyn Store) -> Result<()> {
        for (dir, lock, has_damage) in self.0 {
            let storing = || {
                format!("storing what a replaced gateway has left in `{}`", dir.path().display())
            };
            let responses = dir.read_responses().with_context(storing)?;
            if !responses.is_empty() {
                store.keep_responses(responses, u64::MAX).await.with_context(storing)?;
            }
            dir.discard(&lock, has_damage).with_context(storing)?;
        }
        Ok(())
    }
}
