//! Hands over to the process that replaces this one although requests are in progress: that one opens the store, and
//! these requests end here. `hand_over` at the root of the crate has what is left in the data directory for it.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::take_over::{DataDirLock, Successor};
use crate::hand_over::{EndingDir, EndingLock, OpenRequest, OpenRequests};
use domain::record::RequestRecord;

/// The time that requests which arrived at the last moment have until they are admitted.
const ADMISSION_TIME: Duration = Duration::from_millis(200);

/// The requests that this process finishes after another one has replaced it.
pub(super) struct Ending {
    dir: EndingDir,
    _lock: EndingLock,
}

/// Waits until the requests in progress should be handed over: they are `draining`, and the `successor` accounts for
/// them.
pub(super) async fn is_due(successor: &Successor, draining: &CancellationToken) {
    successor.adopts.cancelled().await;
    draining.cancelled().await;
    sleep(ADMISSION_TIME).await;
}

/// Writes what has ended to the store, moves the journal aside with what the next process must know of the requests in
/// progress, closes the store, and releases the data directory. Their records go to that journal from now on.
///
/// # Errors
/// If the journal cannot be moved, the data directory is kept, and the next process waits until the requests have ended.
pub(super) async fn hand_over(core: &Core<'_>, lock: DataDirLock) -> Result<Ending, DataDirLock> {
    match leave_requests(core).await {
        Ok(ending) => {
            core.storage.close().await;
            tracing::info!(event = "handed_over", dir = %ending.dir.path().display(), "another process serves now; finishing the requests in progress");
            drop(lock);
            Ok(ending)
        }
        Err(error) => {
            let error: &dyn std::error::Error = &*error;
            tracing::error!(
                event = "hand_over_failed",
                error,
                "another process has to wait for the requests in progress"
            );
            Err(lock)
        }
    }
}

async fn leave_requests(core: &Core<'_>) -> Result<Ending> {
    let (config, ledger) = (core.startup.config, &core.accounting.ledger);
    let funds = ledger.hand_over();
    let open_request = |record: &RequestRecord| OpenRequest {
        id: record.id.0,
        account: record.account.0,
        key: record.key.to_string(),
        model: record.model.as_ref().map(ToString::to_string),
    };
    let replays = core.history.replays.iter();
    let open = OpenRequests {
        requests: ledger.under_way(|open| open_request(&open.record)),
        idempotency: replays.flat_map(|it| it.in_progress()).map(Into::into).collect(),
        ..OpenRequests::default()
    };
    let open = open.with_funds(&funds);
    ledger.record_merged();
    core.startup.lifecycle.background.stop().await;
    let prepared = EndingDir::prepare(&ledger.journal_path(), &open);
    let lock = prepared.context("describing the requests in progress")?;
    let dir = EndingDir::next(&config.data_dir).context("reading the data directory")?;
    ledger.move_journal(dir.path()).context("moving the journal")?;
    Ok(Ending { dir, _lock: lock })
}

// === impl Ending ===

impl Ending {
    /// Writes what is left of the requests, which have ended.
    pub(super) fn finish(self, core: &Core<'_>) {
        let (ledger, responses) = (&core.accounting.ledger, &core.history.responses);
        ledger.record_merged();
        // A failure was logged, and nothing can be done about it.
        _ = ledger.flush_journal();
        let responses = responses.as_ref().map(|it| it.unwritten()).unwrap_or_default();
        if !responses.is_empty()
            && let Err(error) = self.dir.write_responses(&responses)
        {
            tracing::error!(event = "rows_not_written", %error, rows = responses.len(), "cannot write responses; stopping without them");
        }
    }
}
