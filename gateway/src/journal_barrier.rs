//! Connection IO that flushes the journal before each write, and batches the writes of a worker.
//!
//! Invariant: no byte of an answer or of an upstream request leaves before the journal holds what it reveals.
//! Short writes are buffered until the ready tasks of the worker's thread have run. Then the journal is flushed
//! once for all of them, and they are written one after the other, which also wakes fewer readers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::task::coop;
use tokio_util::task::TaskTracker;

/// The largest write that is buffered, in bytes; longer ones are written at once, without a copy.
const MAX_BUFFERED_BYTES: usize = 4 * 1024;

/// Flushes the journal. On an error, requests are not sent.
pub type FlushJournal = Arc<dyn Fn() -> Result<(), BoxError> + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Creates connections that write behind the journal.
#[derive(Clone)]
pub struct JournalBarrier(Arc<Shared>);

struct Shared {
    flush_journal: FlushJournal,
    scheduled: Mutex<Vec<Arc<dyn ScheduledWrite>>>,
    /// Runs the buffered writes.
    tasks: TaskTracker,
}

/// A connection that hyper reads and writes.
pub struct JournaledIo<S> {
    state: Arc<Mutex<ConnectionState<S>>>,
    journal_barrier: JournalBarrier,
}

struct ConnectionState<S> {
    stream: S,
    /// The buffered bytes, and how many of them `stream` has accepted.
    buffered: Vec<u8>,
    sent: usize,
    /// Whether the barrier will write `buffered`.
    is_scheduled: bool,
    /// The task that wrote, which is woken if the write fails.
    writer: Option<Waker>,
    failure: Option<io::Error>,
}

/// A connection with buffered bytes.
trait ScheduledWrite: Send + Sync {
    fn send(&self);
}

// === impl JournalBarrier ===

impl JournalBarrier {
    /// Creates the barrier of a worker. It calls `flush_journal` before each write, and runs buffered writes as
    /// one of `tasks`.
    pub fn new(flush_journal: FlushJournal, tasks: TaskTracker) -> Self {
        Self(Arc::new(Shared { flush_journal, scheduled: Mutex::default(), tasks }))
    }

    /// Returns the function that flushes the journal.
    pub fn flush_journal(&self) -> FlushJournal {
        self.0.flush_journal.clone()
    }

    /// Wraps `stream` so that it writes behind the journal.
    pub fn connection<S>(&self, stream: S) -> JournaledIo<S> {
        let state = ConnectionState {
            stream,
            buffered: Vec::new(),
            sent: 0,
            is_scheduled: false,
            writer: None,
            failure: None,
        };
        JournaledIo { state: Arc::new(Mutex::new(state)), journal_barrier: self.clone() }
    }

    /// Flushes the journal. A failure does not hold back answers; requests check it themselves.
    fn flush(&self) {
        _ = (self.0.flush_journal)();
    }

    /// Schedules the write of a connection for after the ready tasks have run.
    fn schedule(&self, state: Arc<dyn ScheduledWrite>) {
        let mut scheduled = lock(&self.0.scheduled);
        scheduled.push(state);
        if scheduled.len() == 1 {
            let journal_barrier = self.clone();
            // It may write to more connections than one task's cooperative budget allows; each of them has
            // used its own.
            let send = async move { journal_barrier.send() };
            self.0.tasks.spawn(coop::unconstrained(send));
        }
    }

    fn send(&self) {
        // The taken connections were written to before the flush below.
        let scheduled = std::mem::take(&mut *lock(&self.0.scheduled));
        self.flush();
        for state in scheduled {
            state.send();
        }
    }
}

// === impl JournaledIo ===

impl<S: Read + Unpin> Read for JournaledIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.state).stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin + Send + 'static> Write for JournaledIo<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.state);
        let length = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        // If the stream accepted only part, the writer waits for it, not the barrier.
        let has_room = state.is_scheduled || state.buffered.is_empty();
        if has_room && state.buffered.len() + length <= MAX_BUFFERED_BYTES {
            state.buffer(buffers, length, context)?;
            if !std::mem::replace(&mut state.is_scheduled, true) {
                self.journal_barrier.schedule(self.state.clone());
            }
            return Poll::Ready(Ok(length));
        }
        self.journal_barrier.flush();
        ready!(state.poll_send(context))?;
        Pin::new(&mut state.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Scheduled bytes will be written; only a connection that accepted part of its bytes is waited for.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        if state.is_scheduled {
            return Poll::Ready(Ok(()));
        }
        ready!(state.poll_send(context))?;
        Pin::new(&mut state.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        self.journal_barrier.flush();
        ready!(state.poll_send(context))?;
        Pin::new(&mut state.stream).poll_shutdown(context)
    }
}

// === impl ConnectionState ===

impl<S: Write + Unpin> ConnectionState<S> {
    /// Buffers what `context`'s task wrote.
    fn buffer(
        &mut self,
        buffers: &[IoSlice<'_>],
        length: usize,
        context: &Context<'_>,
    ) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)?;
        self.buffered.reserve_exact(length);
        for buffer in buffers {
            self.buffered.extend_from_slice(buffer);
        }
        match &mut self.writer {
            Some(writer) => writer.clone_from(context.waker()),
            None => self.writer = Some(context.waker().clone()),
        }
        Ok(())
    }

    /// Writes the buffered bytes to the stream.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.failure.take().map_or(Ok(()), Err)?;
        while self.sent < self.buffered.len() {
            let stream = Pin::new(&mut self.stream);
            match ready!(stream.poll_write(context, &self.buffered[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => self.sent += taken,
            }
        }
        // An idle connection holds no buffer.
        self.buffered = Vec::new();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin + Send> ScheduledWrite for Mutex<ConnectionState<S>> {
    fn send(&self) {
        let mut state = lock(self);
        state.is_scheduled = false;
        let Some(writer) = state.writer.take() else { return };
        let mut context = Context::from_waker(&writer);
        let sent = match state.poll_send(&mut context) {
            Poll::Ready(Ok(())) => Pin::new(&mut state.stream).poll_flush(&mut context),
            unfinished => unfinished,
        };
        // A stream that accepts no more wakes the writer, whose next flush waits for it.
        if let Poll::Ready(Err(error)) = sent {
            state.failure = Some(error);
            writer.wake_by_ref();
        }
        state.writer = Some(writer);
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
