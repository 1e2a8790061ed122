//! Waits for the disk, for a journal that survives power cuts.
//!
//! One thread syncs for all waiters: while it is at the disk, further waiters accumulate and share the next
//! sync. A file that could not be synced is not trusted again, because the kernel reports such a failure only
//! once, and a later sync may succeed although the data is lost. Open requests are written again to another
//! segment, and syncs fail until the store has the records that had ended. Start with [`Journal::sync`].

use std::fs::File;
use std::io;
use std::iter;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Journal, State};

/// The minimum time between two attempts to begin another segment after a failed sync.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The thread that syncs for all waiters. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Syncer(Sender<Waiter>);

/// A failed sync.
#[derive(Clone, Copy, Debug)]
struct SyncFailure {
    /// The last segment that the disk did not accept.
    segment: u64,
    /// Whether the open requests of that segment were written to another one.
    is_replaced: bool,
    /// The time at which another segment may be begun; `None` if none was attempted yet. Each attempt takes
    /// space on the disk.
    retry_at: Option<Instant>,
}

/// Receives whether the disk has what was written before the wait began.
type Waiter = oneshot::Sender<bool>;

/// The disk did not accept what was written.
#[derive(Debug, thiserror::Error)]
#[error("the journal could not be synced to the disk")]
pub struct SyncError;

impl Syncer {
    /// Starts the thread. `sync` must bring everything that was written before its call to the disk.
    pub(super) fn start(sync: impl FnMut() -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let (waiters, arrived) = channel();
        Builder::new().name("journal-sync".to_owned()).spawn(move || serve(&arrived, sync))?;
        Ok(Self(waiters))
    }

    /// Waits until the disk has what was written before the call.
    ///
    /// # Errors
    /// The disk did not accept it.
    pub(super) async fn sync(&self) -> Result<(), SyncError> {
        let (waiter, answer) = oneshot::channel();
        self.0.send(waiter).map_err(|_| SyncError)?;
        if answer.await.unwrap_or(false) { Ok(()) } else { Err(SyncError) }
    }
}

fn serve(arrived: &Receiver<Waiter>, mut sync: impl FnMut() -> io::Result<()>) {
    while let Ok(first) = arrived.recv() {
        // All of them have written what they wait for.
        let waiters: Vec<_> = iter::once(first).chain(arrived.try_iter()).collect();
        let synced = sync();
        if let Err(error) = &synced {
            tracing::error!(event = "journal_unsynced", %error, waiters = waiters.len(), "cannot sync the journal");
        }
        for waiter in waiters {
            // The waiter may have been dropped.
            _ = waiter.send(synced.is_ok());
        }
    }
}

// === impl Journal ===

impl Journal {
    /// Makes [`sync`](Self::sync) wait for the disk.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn with_sync(self) -> io::Result<Self> {
        // Opened now, because the directory may be moved.
        let dir = File::open(self.path())?;
        self.with_sync_by(RETRY_INTERVAL, move |files, is_new| {
            files.iter().try_for_each(|file| file.sync_data())?;
            // A new file is only found after a crash if its directory was synced.
            if is_new { dir.sync_all() } else { Ok(()) }
        })
    }

    /// Waits until the disk has everything that was begun or written before the call. Returns at once unless
    /// the journal is [`with_sync`](Self::with_sync).
    ///
    /// # Errors
    /// The disk did not accept it.
    pub async fn sync(&self) -> Result<(), SyncError> {
        match &self.syncer {
            Some(syncer) => {
                self.flush().map_err(|_| SyncError)?;
                syncer.sync().await
            }
            None => Ok(()),
        }
    }

    /// Returns whether [`sync`](Self::sync) waits for the disk.
    pub fn survives_power_cuts(&self) -> bool {
        self.syncer.is_some()
    }

    /// Calls `sync` with the files that hold unsynced data, and whether one of them is new. After a failure,
    /// at most one segment is begun in each `retry_interval`.
    pub(super) fn with_sync_by(
        mut self,
        retry_interval: Duration,
        mut sync: impl FnMut(&[Arc<File>], bool) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        self.lock().unsynced = Some(Vec::new());
        let state = self.state.clone();
        let mut newest = None;
        let mut failure = None;
        self.syncer = Some(Syncer::start(move || {
            let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
            let (files, number) = {
                let mut state = lock();
                if let Some(SyncFailure { is_replaced, retry_at, .. }) = &mut failure
                    && !*is_replaced
                {
                    let now = Instant::now();
                    if retry_at.is_some_and(|at| now < at) {
                        return Err(io::Error::other("the last attempt failed a short time ago"));
                    }
                    // Set before the attempt, which may take space on the disk and fail all the same.
                    *retry_at = Some(now + retry_interval);
                    state.begin_segment(u64::MAX)?;
                    *is_replaced = true;
                }
                let mut files = state.unsynced.as_mut().map(std::mem::take).unwrap_or_default();
                files.push(state.active.file());
                (files, state.active.number())
            };
            if let Err(error) = sync(&files, newest != Some(number)) {
                let retry_at = failure.and_then(|failure: SyncFailure| failure.retry_at);
                failure = Some(SyncFailure { segment: number, is_replaced: false, retry_at });
                return Err(error);
            }
            newest = Some(number);
            if failure.is_some_and(|failure| lock().needs_until(failure.segment)) {
                return Err(io::Error::other(
                    "a segment that could not be synced has records that the store does not have",
                ));
            }
            failure = None;
            Ok(())
        })?);
        Ok(self)
    }
}

// === impl State ===

impl State {
    /// Returns whether a request is only in the segments up to this one.
    fn needs_until(&self, segment: u64) -> bool {
        self.needed.range(..=segment).any(|(_, &count)| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;

    use futures_util::poll;

    use super::*;

    /// Returns a disk that syncs on command, and the number of its syncs.
    fn held() -> (Syncer, Sender<io::Result<()>>, Receiver<()>, Arc<AtomicU32>) {
        let (go, held) = channel::<io::Result<()>>();
        let (begun, begins) = channel();
        let count = Arc::new(AtomicU32::new(0));
        let counted = count.clone();
        let syncer = Syncer::start(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            begun.send(()).ok();
            held.recv().unwrap_or(Ok(()))
        });
        (syncer.unwrap(), go, begins, count)
    }

    #[tokio::test]
    async fn a_waiter_waits_for_a_sync_that_began_after_its_write() {
        let (syncer, go, begins, count) = held();
        let mut early = Box::pin(syncer.sync());
        assert!(poll!(&mut early).is_pending());
        begins.recv().unwrap();
        // The disk is busy with earlier data.
        let mut late = Box::pin(syncer.sync());
        assert!(poll!(&mut late).is_pending());
        go.send(Ok(())).unwrap();
        early.await.unwrap();
        begins.recv().unwrap();
        assert!(poll!(&mut late).is_pending());
        go.send(Ok(())).unwrap();
        late.await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn all_that_wait_share_one_sync() {
        let (syncer, go, begins, count) = held();
        let mut first = Box::pin(syncer.sync());
        assert!(poll!(&mut first).is_pending());
        begins.recv().unwrap();
        let mut others: Vec<_> = (0..100).map(|_| Box::pin(syncer.sync())).collect();
        for other in &mut others {
            assert_eq!(poll!(other).map(|synced| synced.is_ok()), Poll::Pending);
        }
        go.send(Ok(())).unwrap();
        go.send(Ok(())).unwrap();
        first.await.unwrap();
        for other in others {
            other.await.unwrap();
        }
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn waiters_learn_that_their_sync_failed() {
        let (syncer, go, _begins, _) = held();
        go.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        go.send(Ok(())).unwrap();
        assert!(syncer.sync().await.is_err());
        assert!(syncer.sync().await.is_ok());
    }
}
