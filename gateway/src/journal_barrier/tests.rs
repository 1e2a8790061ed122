//! Connections in memory: what leaves when, and behind what.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::task::yield_now;

use super::*;

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        lock(&self.0).push(what.into());
    }

    /// What happened since the last look.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// A barrier whose flushes are logged.
    fn journal_barrier(&self) -> JournalBarrier {
        let log = self.clone();
        let flush_journal = Arc::new(move || {
            log.add("asked");
            Ok(())
        });
        JournalBarrier::new(flush_journal, TaskTracker::new())
    }

    /// A connection that takes `room` bytes until they are read at its far end, and logs the first four of
    /// each time.
    fn connect(
        &self,
        journal_barrier: &JournalBarrier,
        room: usize,
    ) -> (JournaledIo<Logged>, DuplexStream) {
        let (near, far) = tokio::io::duplex(room);
        (journal_barrier.connection(Logged(TokioIo::new(near), self.clone())), far)
    }
}

struct Logged(TokioIo<DuplexStream>, Log);

impl Write for Logged {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = ready!(Pin::new(&mut self.0).poll_write(context, bytes))?;
        self.1.add(String::from_utf8_lossy(&bytes[..taken.min(4)]));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

async fn write(connection: &mut JournaledIo<Logged>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let taken = poll_fn(|context| Pin::new(&mut *connection).poll_write(context, bytes)).await;
        bytes = &bytes[taken.unwrap()..];
    }
}

async fn flush(connection: &mut JournaledIo<Logged>) -> io::Result<()> {
    poll_fn(|context| Pin::new(&mut *connection).poll_flush(context)).await
}

async fn shut_down(connection: &mut JournaledIo<Logged>) -> io::Result<()> {
    poll_fn(|context| Pin::new(&mut *connection).poll_shutdown(context)).await
}

/// What arrives until the connection is closed.
async fn rest(mut far: DuplexStream) -> String {
    let mut read = String::new();
    far.read_to_string(&mut read).await.unwrap();
    read
}

#[tokio::test]
async fn on_one_thread_what_is_written_in_a_turn_leaves_at_its_end_behind_one_departure() {
    let log = Log::default();
    let journal_barrier = log.journal_barrier();
    let (mut one, _far) = log.connect(&journal_barrier, 100);
    let (mut other, _far_other) = log.connect(&journal_barrier, 100);
    for _ in 0..2 {
        write(&mut one, b"a").await;
        write(&mut other, b"you").await;
        write(&mut one, b"bc").await;
        flush(&mut one).await.unwrap();
        assert!(log.take().is_empty());
        yield_now().await;
        assert_eq!(log.take(), ["asked", "abc", "you"]);
    }
}

#[tokio::test]
async fn long_messages_follow_what_is_kept_and_are_not_kept() {
    let log = Log::default();
    let (mut connection, _far) = log.connect(&log.journal_barrier(), 3 * MAX_BUFFERED_BYTES);
    write(&mut connection, b"head").await;
    write(&mut connection, &[b'x'; MAX_BUFFERED_BYTES]).await;
    assert_eq!(log.take(), ["asked", "head", "xxxx"]);
    assert!(lock(&connection.state).buffered.is_empty());
    yield_now().await;
    assert_eq!(log.take(), ["asked"], "the journal_barrier finds nothing to send");
}

#[tokio::test]
async fn who_writes_to_a_stream_that_takes_no_more_waits_for_it() {
    let log = Log::default();
    let (mut connection, far) = log.connect(&log.journal_barrier(), 4);
    write(&mut connection, b"hello, ").await;
    yield_now().await;
    assert_eq!(log.take(), ["asked", "hell"]);
    let writing = async {
        write(&mut connection, b"world").await;
        flush(&mut connection).await.unwrap();
        shut_down(&mut connection).await.unwrap();
    };
    let ((), read) = tokio::join!(writing, rest(far));
    assert_eq!(read, "hello, world");
    let log = log.take();
    let departed = log.iter().position(|what| what == "asked");
    assert!(departed < log.iter().position(|what| what.starts_with('w')), "{log:?}");
}

/// Whether a task was woken.
#[derive(Default)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_failed_write_wakes_its_writer_and_is_returned_by_the_next_flush() {
    let log = Log::default();
    let (mut connection, far) = log.connect(&log.journal_barrier(), 100);
    drop(far);
    let woken = Arc::<WakeFlag>::default();
    let waker = Waker::from(woken.clone());
    let written = Pin::new(&mut connection).poll_write(&mut Context::from_waker(&waker), b"hello");
    assert!(matches!(written, Poll::Ready(Ok(5))));
    yield_now().await;
    assert!(woken.0.load(Ordering::Relaxed));
    let error = flush(&mut connection).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_connection_that_shuts_down_has_sent_all() {
    let log = Log::default();
    let (mut connection, far) = log.connect(&log.journal_barrier(), 100);
    write(&mut connection, b"bye").await;
    shut_down(&mut connection).await.unwrap();
    assert_eq!(log.take(), ["asked", "bye"]);
    assert_eq!(rest(far).await, "bye");
}

#[tokio::test]
async fn what_was_written_leaves_although_its_connection_is_dropped() {
    let log = Log::default();
    let (mut connection, far) = log.connect(&log.journal_barrier(), 100);
    write(&mut connection, b"bye").await;
    drop(connection);
    assert_eq!(rest(far).await, "bye");
}

#[tokio::test]
async fn an_answer_leaves_although_the_journal_cannot_be_written() {
    let log = Log::default();
    let journal_barrier =
        JournalBarrier::new(Arc::new(|| Err("the disk is full".into())), TaskTracker::new());
    let (mut connection, _far) = log.connect(&journal_barrier, 100);
    write(&mut connection, b"bye").await;
    yield_now().await;
    assert_eq!(log.take(), ["bye"]);
}
