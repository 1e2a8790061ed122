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
pub type Departure = Arc<dyn Fn() -> Result<(), BoxError> + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where connections leave what they have to send.
#[derive(Clone)]
pub struct Outbox(Arc<Parts>);

struct Parts {
    departure: Departure,
    gathered: Mutex<Vec<Arc<dyn Gathered>>>,
    /// Runs the sending of what was gathered; `None` if nothing is.
    tasks: Option<TaskTracker>,
}

/// A connection, as hyper reads and writes it.
pub struct Posted<S> {
    line: Arc<Mutex<Line<S>>>,
    outbox: Outbox,
}

struct Line<S> {
    stream: S,
    /// What the writer got rid of, and how much of it `stream` has taken.
    kept: Vec<u8>,
    sent: usize,
    /// Whether the outbox will send it.
    is_gathered: bool,
    /// Who wrote it, to be told if it does not get through.
    writer: Option<Waker>,
    failure: Option<io::Error>,
}

/// A connection with something to send.
trait Gathered: Send + Sync {
    fn send(&self);
}

// === impl Outbox ===

impl Outbox {
    /// An outbox that asks `departure` before anything leaves. Gathers if the runtime has but one thread,
    /// and sends as one of `tasks` then.
    ///
    /// # Panics
    /// There is no runtime.
    pub fn new(departure: Departure, tasks: TaskTracker) -> Self {
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let tasks = is_alone.then_some(tasks);
        Self(Arc::new(Parts { departure, gathered: Mutex::default(), tasks }))
    }

    /// What is asked before anything leaves.
    pub fn departure(&self) -> Departure {
        self.0.departure.clone()
    }

    /// Has `stream` send through this outbox.
    pub fn connection<S>(&self, stream: S) -> Posted<S> {
        let line = Line {
            stream,
            kept: Vec::new(),
            sent: 0,
            is_gathered: false,
            writer: None,
            failure: None,
        };
        Posted { line: Arc::new(Mutex::new(line)), outbox: self.clone() }
    }

    /// Brings to the journal what is about to be told. That it cannot be written keeps requests back, which
    /// ask for themselves, and no answer.
    fn depart(&self) {
        _ = (self.0.departure)();
    }

    /// Has a connection send once the tasks that are ready have had their turn.
    fn gather(&self, tasks: &TaskTracker, line: Arc<dyn Gathered>) {
        let mut gathered = lock(&self.0.gathered);
        gathered.push(line);
        if gathered.len() == 1 {
            let outbox = self.clone();
            // it may write to more connections than a task should in one turn: they have had theirs
            tasks.spawn(coop::unconstrained(async move { outbox.send() }));
        }
    }

    fn send(&self) {
        // what is taken was written before the journal is
        let gathered = std::mem::take(&mut *lock(&self.0.gathered));
        self.depart();
        for line in gathered {
            line.send();
        }
    }
}

// === impl Posted ===

impl<S: Read + Unpin> Read for Posted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.line).stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin + Send + 'static> Write for Posted<S> {
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
        let mut line = lock(&self.line);
        let length = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        // a stream that took no more has its writer wait, and not the outbox
        let has_room = line.is_gathered || line.kept.is_empty();
        if let Some(tasks) = &self.outbox.0.tasks
            && has_room
            && line.kept.len() + length <= SHORT
        {
            line.keep(buffers, length, context)?;
            if !std::mem::replace(&mut line.is_gathered, true) {
                self.outbox.gather(tasks, self.line.clone());
            }
            return Poll::Ready(Ok(length));
        }
        self.outbox.depart();
        ready!(line.poll_send(context))?;
        Pin::new(&mut line.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.outbox.0.tasks.is_some() || lock(&self.line).stream.is_write_vectored()
    }

    /// What is gathered will be sent; only a connection that did not take it all is waited for.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = lock(&self.line);
        if line.is_gathered {
            return Poll::Ready(Ok(()));
        }
        ready!(line.poll_send(context))?;
        Pin::new(&mut line.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = lock(&self.line);
        self.outbox.depart();
        ready!(line.poll_send(context))?;
        Pin::new(&mut line.stream).poll_shutdown(context)
    }
}

// === impl Line ===

impl<S: Write + Unpin> Line<S> {
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

impl<S: Write + Unpin + Send> Gathered for Mutex<Line<S>> {
    fn send(&self) {
        let mut line = lock(self);
        line.is_gathered = false;
        let Some(writer) = line.writer.take() else { return };
        let mut context = Context::from_waker(&writer);
        let sent = match line.poll_send(&mut context) {
            Poll::Ready(Ok(())) => Pin::new(&mut line.stream).poll_flush(&mut context),
            unfinished => unfinished,
        };
        // a stream that takes no more wakes the writer, whose next flush waits for it
        if let Poll::Ready(Err(error)) = sent {
            line.failure = Some(error);
            writer.wake_by_ref();
        }
        line.writer = Some(writer);
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
