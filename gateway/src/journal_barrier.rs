//! Connections whose messages leave behind the journal, and together where one thread runs everything.
//!
//! What a message tells must not be known to anybody before the journal has it. Where there are several
//! threads, each write asks for that. One thread keeps short messages until the tasks that are ready have had
//! their turn: then the journal is written once for all of them, and they are sent one after the other, which
//! has to wake fewer readers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::coop;
use tokio_util::task::TaskTracker;

/// What a connection keeps for later, in bytes; more is sent at once, and not copied.
const SHORT: usize = 4 * 1024;

/// Asked before anything leaves; where it fails, no request does.
pub type FlushJournal = Arc<dyn Fn() -> Result<(), BoxError> + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where connections leave what they have to send.
#[derive(Clone)]
pub struct JournalBarrier(Arc<Parts>);

struct Parts {
    flush_journal: FlushJournal,
    scheduled: Mutex<Vec<Arc<dyn ScheduledWrite>>>,
    /// Runs the sending of what was scheduled; `None` if nothing is.
    tasks: Option<TaskTracker>,
}

/// A connection, as hyper reads and writes it.
pub struct JournaledIo<S> {
    state: Arc<Mutex<ConnectionState<S>>>,
    journal_barrier: JournalBarrier,
}

struct ConnectionState<S> {
    stream: S,
    /// What the writer got rid of, and how much of it `stream` has taken.
    kept: Vec<u8>,
    sent: usize,
    /// Whether the barrier will send `kept`.
    is_scheduled: bool,
    /// Who wrote it, to be told if it does not get through.
    writer: Option<Waker>,
    failure: Option<io::Error>,
}

/// A connection with something to send.
trait ScheduledWrite: Send + Sync {
    fn send(&self);
}

// === impl JournalBarrier ===

impl JournalBarrier {
    /// Creates a barrier that calls `flush_journal` before anything leaves. Gathers if the runtime has but one thread,
    /// and sends as one of `tasks` then.
    ///
    /// # Panics
    /// There is no runtime.
    pub fn new(flush_journal: FlushJournal, tasks: TaskTracker) -> Self {
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let tasks = is_alone.then_some(tasks);
        Self(Arc::new(Parts { flush_journal, scheduled: Mutex::default(), tasks }))
    }

    /// What is asked before anything leaves.
    pub fn flush_journal(&self) -> FlushJournal {
        self.0.flush_journal.clone()
    }

    /// Has `stream` send through this barrier.
    pub fn connection<S>(&self, stream: S) -> JournaledIo<S> {
        let state = ConnectionState {
            stream,
            kept: Vec::new(),
            sent: 0,
            is_scheduled: false,
            writer: None,
            failure: None,
        };
        JournaledIo { state: Arc::new(Mutex::new(state)), journal_barrier: self.clone() }
    }

    /// Brings to the journal what is about to be told. That it cannot be written keeps requests back, which
    /// ask for themselves, and no answer.
    fn flush(&self) {
        _ = (self.0.flush_journal)();
    }

    /// Has a connection send once the tasks that are ready have had their turn.
    fn schedule(&self, tasks: &TaskTracker, state: Arc<dyn ScheduledWrite>) {
        let mut scheduled = lock(&self.0.scheduled);
        scheduled.push(state);
        if scheduled.len() == 1 {
            let journal_barrier = self.clone();
            // it may write to more connections than a task should in one turn: they have had theirs
            tasks.spawn(coop::unconstrained(async move { journal_barrier.send() }));
        }
    }

    fn send(&self) {
        // what is taken was written before the journal is
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
        // a stream that took no more has its writer wait, and not the journal_barrier
        let has_room = state.is_scheduled || state.kept.is_empty();
        if let Some(tasks) = &self.journal_barrier.0.tasks
            && has_room
            && state.kept.len() + length <= SHORT
        {
            state.keep(buffers, length, context)?;
            if !std::mem::replace(&mut state.is_scheduled, true) {
                self.journal_barrier.schedule(tasks, self.state.clone());
            }
            return Poll::Ready(Ok(length));
        }
        self.journal_barrier.flush();
        ready!(state.poll_send(context))?;
        Pin::new(&mut state.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.journal_barrier.0.tasks.is_some() || lock(&self.state).stream.is_write_vectored()
    }

    /// What is scheduled will be sent; only a connection that did not take it all is waited for.
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
    /// Takes what `context`'s task wrote, to be sent later.
    fn keep(
        &mut self,
        buffers: &[IoSlice<'_>],
        length: usize,
        context: &Context<'_>,
    ) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)?;
        self.kept.reserve_exact(length);
        for buffer in buffers {
            self.kept.extend_from_slice(buffer);
        }
        match &mut self.writer {
            Some(writer) => writer.clone_from(context.waker()),
            None => self.writer = Some(context.waker().clone()),
        }
        Ok(())
    }

    /// Has the stream take what is kept.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.failure.take().map_or(Ok(()), Err)?;
        while self.sent < self.kept.len() {
            let stream = Pin::new(&mut self.stream);
            match ready!(stream.poll_write(context, &self.kept[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => self.sent += taken,
            }
        }
        // a connection that waits for hours holds nothing
        self.kept = Vec::new();
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
        // a stream that takes no more wakes the writer, whose next flush waits for it
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
