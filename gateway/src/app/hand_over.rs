//! Hands over to the process that replaces this one although requests are in progress: that one opens the store, and
//! these requests end here. `hand_over` at the root of the crate has what is left in the data directory for it.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::take_over::{DataDirLock, Successor};
use crate::hand_over::{DrainingDir, DrainingLock, OpenRequest, OpenRequests};
use domain::record::RequestRecord;

/// The time that requests which arrived at the last moment have until they are admitted.
const ADMISSION_TIME: Duration = Duration::from_millis(200);

/// The requests that this process finishes after another one has replaced it.
struct Draining {
    dir: DrainingDir,
    _lock: DrainingLock,
}

/// Waits until this process is to be closed for its `successor`, which adopts requests: no others are left than those in
/// progress (`draining`).
pub(super) async fn is_due(successor: &Successor, draining: &CancellationToken) {
    successor.adopts.cancelled().await;
    draining.cancelled().await;
    sleep(ADMISSION_TIME).await;
}

/// Writes what requests have left, and closes the store. If there are `requests` in progress, they are handed over before,
/// and finished. Returns the lock of the data directory, unless another process has that directory now.
pub(super) async fn close(
    core: &Core<'_>,
    lock: DataDirLock,
    requests: Option<impl Future<Output = ()>>,
) -> Option<DataDirLock> {
    let mut lock = Some(lock);
    if let Some(requests) = requests {
        let (handed_over, ()) = tokio::join!(hand_over(core, &mut lock), requests);
        if let Some(draining) = handed_over {
            core.accounting.ledger.record_merged();
            // A failure was logged, and nothing can be done about it.
            _ = core.accounting.ledger.flush_journal();
            drop(draining);
            return None;
        }
    }
    core.close().await;
    lock
}

/// Moves the journal aside with what the next process must know, closes the store, and releases the data directory. The
/// records of requests go to that journal from now on. If it cannot be moved, the lock is kept, and the next process waits
/// until the requests have ended.
async fn hand_over(core: &Core<'_>, lock: &mut Option<DataDirLock>) -> Option<Draining> {
    match leave_requests(core).await {
        Ok(draining) => {
            core.storage.close().await;
            tracing::info!(event = "handed_over", dir = %draining.dir.path().display(), "another process serves now; finishing the requests in progress");
            *lock = None;
            Some(draining)
        }
        Err(error) => {
            let error = format_args!("{error:#}");
            tracing::error!(event = "hand_over_failed", %error, "another process has to wait for the requests in progress");
            None
        }
    }
}

async fn leave_requests(core: &Core<'_>) -> Result<Draining> {
    let Core { startup, accounting, history, .. } = core;
    let (lifecycle, ledger) = (&startup.lifecycle, &accounting.ledger);
    // Calls of the admin plane have ended, or are refused by the store from now on; changes are completed.
    lifecycle.change_tasks.close();
    lifecycle.change_tasks.wait().await;
    let funds = ledger.hand_over();
    let open_request = |record: &RequestRecord| OpenRequest {
        id: record.id.0,
        account: record.account.0,
        key: record.key.to_string(),
        model: record.model.as_ref().map(ToString::to_string),
    };
    let keyed = history.replays.iter().flat_map(|replays| replays.in_progress());
    let open = OpenRequests {
        requests: ledger.in_flight_requests(|open| open_request(&open.record)),
        idempotency: keyed.map(Into::into).collect(),
        ..OpenRequests::default()
    };
    let open = open.with_funds(&funds);
    ledger.record_merged();
    lifecycle.background.stop().await;
    let prepared = DrainingDir::prepare(&ledger.journal_path(), &open);
    let (lock, response_file) = prepared.context("describing the requests in progress")?;
    let dir = DrainingDir::next(&startup.config.data_dir).context("reading the data directory")?;
    ledger.move_journal(dir.path()).context("moving the journal")?;
    // Nothing may fail from now on: another process could read the journal.
    if let Some(responses) = &history.responses {
        responses.hand_over(response_file);
    }
    Ok(Draining { dir, _lock: lock })
}
