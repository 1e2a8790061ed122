//! Restores what an earlier process left: the journal, what keys have spent, and the requests that it answered.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;

use crate::clock::Clock;
use crate::config::Config;
use crate::fleet::{Claims, SharedAnswers};
use crate::ledger::Ledger;
use crate::ledger::journal::{Journal, Recovered};
use crate::pipeline::replay::{MAX_ENTRIES, Replays};
use domain::consumption::Consumption;
use domain::key::Key;
use store::Store;

/// Sets what keys have spent.
pub(super) fn resume_spending(ledger: &Ledger, keys: &[Key], used: &Consumption) {
    let spent: HashMap<_, _> = used.spent.iter().map(|(key, spent)| (key, *spent)).collect();
    for key in keys {
        ledger.resume_spending(key, spent.get(&key.origin).copied().unwrap_or_default());
    }
}

/// Reads what an earlier process left in the journal in `dir`, and checks that it belongs to `store`.
pub(super) async fn recover_journal(dir: &Path, store: &dyn Store) -> Result<Recovered> {
    let opening = || format!("opening the journal in `{}`", dir.display());
    let recovered = Journal::recover(dir).with_context(opening)?;
    recovered.check_accounts(store).await.with_context(opening)?;
    Ok(recovered)
}

/// Creates the replay table from the requests that an earlier process answered.
pub(super) async fn replays(
    config: &Config,
    store: &dyn Store,
    clock: &Arc<dyn Clock>,
    claims: Option<Claims>,
    shared_answers: Option<SharedAnswers>,
) -> Result<Option<Arc<Replays>>> {
    if config.idempotency.is_zero() {
        return Ok(None);
    }
    let since = clock.now().checked_sub(config.idempotency).unwrap_or(Timestamp::MIN);
    let answered = store.answered_since(since, MAX_ENTRIES).await;
    let answered = answered.context("reading what was answered before")?;
    let window = config.idempotency;
    Ok(Some(Replays::new(window, &answered, clock.clone(), claims, shared_answers)))
}
