//! Connections in memory: what leaves when, and behind what.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Wake;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, DuplexStream};

use super::*;

/// A departure that counts how often it was asked.
fn outbox() -> (Outbox, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    let departure = Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    (Outbox::new(departure, TaskTracker::new()), asked)
}

/// A connection that takes `room` bytes until they are read at its far end.
fn connect(outbox: &Outbox, room: usize) -> (Posted<TokioIo<DuplexStream>>, DuplexStream) {
    let (near, far) = tokio::io::duplex(room);
    (outbox.connection(TokioIo::new(near)), far)
}

async fn write(connection: &mut Posted<impl Write + Unpin + Send + 'static>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let taken = poll_fn(|context| Pin::new(&mut *connection).poll_write(context, bytes)).await;
        bytes = &bytes[taken.unwrap()..];
    }
}

async fn flush(connection: &mut Posted<impl Write + Unpin + Send + 'static>) -> io::Result<()> {
    poll_fn(|context| Pin::new(&mut *connection).poll_flush(context)).await
}

/// What has arrived.
fn arrived(far: &mut DuplexStream) -> String {
    let mut bytes = [0; 100];
    let mut buffer = tokio::io::ReadBuf::new(&mut bytes);
    let mut context = Context::from_waker(Waker::noop());
    _ = tokio::io::AsyncRead::poll_read(Pin::new(far), &mut context, &mut buffer);
    String::from_utf8(buffer.filled().to_vec()).unwrap()
}

#[tokio::test]
async fn on_one_thread_what_is_written_in_a_turn_leaves_at_its_end_and_at_once() {
    let (outbox, asked) = outbox();
    let (mut one, mut far_one) = connect(&outbox, 100);
    let (mut other, mut far_other) = connect(&outbox, 100);
    for _ in 0..2 {
        write(&mut one, b"he").await;
        write(&mut other, b"you").await;
        write(&mut one, b"llo").await;
        flush(&mut one).await.unwrap();
        assert_eq!(asked.swap(0, Ordering::Relaxed), 0);
        assert_eq!([arrived(&mut far_one), arrived(&mut far_other)], ["", ""]);
        tokio::task::yield_now().await;
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
        assert_eq!([arrived(&mut far_one), arrived(&mut far_other)], ["hello", "you"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn on_several_threads_each_write_leaves_at_once() {
    let (outbox, asked) = outbox();
    let (mut connection, mut far) = connect(&outbox, 100);
    write(&mut connection, b"hello").await;
    assert_eq!((asked.load(Ordering::Relaxed), arrived(&mut far)), (1, "hello".into()));
}

#[tokio::test]
async fn long_messages_follow_what_is_kept_and_are_not_kept() {
    let (outbox, asked) = outbox();
    let (mut connection, mut far) = connect(&outbox, 3 * SHORT);
    write(&mut connection, b"head").await;
    write(&mut connection, &[b'x'; SHORT]).await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert!(lock(&connection.line).kept.is_empty());
    let mut read = vec![0; 4 + SHORT];
    far.read_exact(&mut read).await.unwrap();
    assert!(read.starts_with(b"headxx") && read.ends_with(b"x"));
    // the outbox finds nothing to send
    tokio::task::yield_now().await;
    assert_eq!(arrived(&mut far), "");
}

#[tokio::test]
async fn who_writes_to_a_stream_that_takes_no_more_waits_for_it() {
    let (outbox, _) = outbox();
    let (mut connection, mut far) = connect(&outbox, 4);
    write(&mut connection, b"hello, ").await;
    tokio::task::yield_now().await;
    assert_eq!(lock(&connection.line).sent, 4);
    let writing = async {
        write(&mut connection, b"world").await;
        flush(&mut connection).await.unwrap();
        poll_fn(|context| Pin::new(&mut connection).poll_shutdown(context)).await.unwrap();
    };
    let mut read = String::new();
    let ((), length) = tokio::join!(writing, far.read_to_string(&mut read));
    assert_eq!((length.unwrap(), &*read), (12, "hello, world"));
}

/// Whether a task was woken.
#[derive(Default)]
struct Told(AtomicBool);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn who_wrote_is_told_what_did_not_get_through() {
    let (outbox, _) = outbox();
    let (mut connection, far) = connect(&outbox, 100);
    drop(far);
    let told = Arc::<Told>::default();
    let waker = Waker::from(told.clone());
    let written = Pin::new(&mut connection).poll_write(&mut Context::from_waker(&waker), b"hello");
    assert!(matches!(written, Poll::Ready(Ok(5))));
    tokio::task::yield_now().await;
    assert!(told.0.load(Ordering::Relaxed));
    let error = flush(&mut connection).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_connection_that_shuts_down_has_sent_all() {
    let (outbox, asked) = outbox();
    let (mut connection, mut far) = connect(&outbox, 100);
    write(&mut connection, b"bye").await;
    poll_fn(|context| Pin::new(&mut connection).poll_shutdown(context)).await.unwrap();
    assert_eq!((asked.load(Ordering::Relaxed), arrived(&mut far)), (1, "bye".into()));
    drop(connection);
    tokio::task::yield_now().await;
    assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn what_was_written_leaves_although_its_connection_is_dropped() {
    let (outbox, _) = outbox();
    let (mut connection, mut far) = connect(&outbox, 100);
    write(&mut connection, b"bye").await;
    drop(connection);
    let mut read = String::new();
    far.read_to_string(&mut read).await.unwrap();
    assert_eq!(read, "bye");
}

#[tokio::test]
async fn an_answer_leaves_although_the_journal_cannot_be_written() {
    let departure = Arc::new(|| Err("the disk is full".into()));
    let outbox = Outbox::new(departure, TaskTracker::new());
    let (mut connection, mut far) = connect(&outbox, 100);
    write(&mut connection, b"hello").await;
    tokio::task::yield_now().await;
    assert_eq!(arrived(&mut far), "hello");
}
