//! Waits for the disk, for a journal that outlives the machine's power as well as the process.
//!
//! One thread syncs for all who wait: while it is at the disk others gather, and share the next sync. A
//! file that could not be synced is not trusted again: a disk says so once, and the next sync may succeed
//! although what it could not write is gone. What is open is written again elsewhere, and nobody is told
//! that all is on the disk before the store has what had ended. Start with [`Journal::synced`].

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

/// How long no other segment is begun after one that the disk did not take, either.
const PAUSE: Duration = Duration::from_secs(10);

/// Syncs for all who wait. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Syncer(Sender<Waiter>);

/// The disk did not take what was written.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The last segment that it did not take.
    segment: u64,
    /// When another segment may be begun; `None` if none was begun yet. Each costs room on the disk.
    again_at: Option<Instant>,
}

/// Is told whether the disk has what was written before it began to wait.
type Waiter = oneshot::Sender<bool>;

/// The disk did not take what was written.
#[derive(Debug, thiserror::Error)]
#[error("the journal could not be synced to the disk")]
pub struct Unsynced;

impl Syncer {
    /// Starts the thread; `sync` brings to the disk what was written before its call.
    pub(super) fn start(sync: impl FnMut() -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let (waiters, arrived) = channel();
        Builder::new().name("journal-sync".to_owned()).spawn(move || serve(&arrived, sync))?;
        Ok(Self(waiters))
    }

    /// Waits until the disk has what was written before the call.
    ///
    /// # Errors
    /// The disk did not take it.
    pub(super) async fn synced(&self) -> Result<(), Unsynced> {
        let (waiter, answer) = oneshot::channel();
        self.0.send(waiter).map_err(|_| Unsynced)?;
        if answer.await.unwrap_or(false) { Ok(()) } else { Err(Unsynced) }
    }
}

fn serve(arrived: &Receiver<Waiter>, mut sync: impl FnMut() -> io::Result<()>) {
    while let Ok(first) = arrived.recv() {
        // all of them have written what they wait for
        let waiters: Vec<_> = iter::once(first).chain(arrived.try_iter()).collect();
        let synced = sync();
        if let Err(error) = &synced {
            tracing::error!(%error, waiters = waiters.len(), "cannot sync the journal");
        }
        for waiter in waiters {
            // who has gone does not want to know
            _ = waiter.send(synced.is_ok());
        }
    }
}

// === impl Journal ===

impl Journal {
    /// Has [`synced`](Self::synced) wait for the disk.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn on_disk(self) -> io::Result<Self> {
        let dir = self.dir.clone();
        self.synced_by(move |files, is_new| {
            files.iter().try_for_each(|file| file.sync_data())?;
            // a new file is found again only once its directory is on the disk
            if is_new { File::open(&dir)?.sync_all() } else { Ok(()) }
        })
    }

    /// Waits until the disk has all that was begun or written before the call; not at all, unless the
    /// journal is [`on_disk`](Self::on_disk).
    ///
    /// # Errors
    /// The disk did not take it.
    pub async fn synced(&self) -> Result<(), Unsynced> {
        match &self.syncer {
            Some(syncer) => {
                self.flush().map_err(|_| Unsynced)?;
                syncer.synced().await
            }
            None => Ok(()),
        }
    }

    /// Whether [`synced`](Self::synced) waits.
    pub fn is_on_disk(&self) -> bool {
        self.syncer.is_some()
    }

    /// `sync` is given the files that hold what is not on the disk, and whether one of them is new.
    pub(super) fn synced_by(
        mut self,
        mut sync: impl FnMut(&[Arc<File>], bool) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        self.lock().unsynced = Some(Vec::new());
        let (state, dir) = (self.state.clone(), self.dir.clone());
        let mut newest = None;
        let mut failure = None;
        self.syncer = Some(Syncer::start(move || {
            let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
            let (files, number) = {
                let mut state = lock();
                if let Some(Failure { segment, again_at }) = &mut failure
                    && (again_at.is_none() || state.active.number() <= *segment)
                {
                    let now = Instant::now();
                    if again_at.is_some_and(|at| now < at) {
                        return Err(io::Error::other("it failed a short time ago"));
                    }
                    state.begin_segment(&dir, u64::MAX)?;
                    *again_at = Some(now + PAUSE);
                }
                let mut files = state.unsynced.as_mut().map(std::mem::take).unwrap_or_default();
                files.push(state.active.file());
                (files, state.active.number())
            };
            if let Err(error) = sync(&files, newest != Some(number)) {
                let again_at = failure.and_then(|failure: Failure| failure.again_at);
                failure = Some(Failure { segment: number, again_at });
                return Err(error);
            }
            newest = Some(number);
            if failure.is_some_and(|failure| lock().needs_until(failure.segment)) {
                return Err(io::Error::other("the store lacks what the disk did not take"));
            }
            failure = None;
            Ok(())
        })?);
        Ok(self)
    }
}

// === impl State ===

impl State {
    /// Whether some request is kept nowhere but in the segments up to this one.
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

    /// A disk that syncs when it is told to, and how often it did.
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
    async fn nobody_goes_on_before_a_sync_that_began_after_it_had_written() {
        let (syncer, go, begins, count) = held();
        let mut early = Box::pin(syncer.synced());
        assert!(poll!(&mut early).is_pending());
        begins.recv().unwrap();
        // the disk is busy with what was there before
        let mut late = Box::pin(syncer.synced());
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
        let mut first = Box::pin(syncer.synced());
        assert!(poll!(&mut first).is_pending());
        begins.recv().unwrap();
        let mut others: Vec<_> = (0..100).map(|_| Box::pin(syncer.synced())).collect();
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
    async fn a_disk_that_fails_is_told_to_those_that_waited_for_it() {
        let (syncer, go, _begins, _) = held();
        go.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        go.send(Ok(())).unwrap();
        assert!(syncer.synced().await.is_err());
        assert!(syncer.synced().await.is_ok());
    }
}
