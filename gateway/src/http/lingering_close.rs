//! The end of a connection whose client may still send.
//!
//! The kernel answers bytes that reach a closed socket with a reset, which discards what the client has received and
//! not read yet. A client of HTTP/2 sends window updates while it reads the last answer, so the connection is read
//! until the client closes it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may send nothing before its connection is closed.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The same in a shutdown, which waits for the connection.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a client may send before its connection is closed.
const MAX_TIME: Duration = Duration::from_secs(30);
/// The most bytes that a client may send: the window updates of some gigabytes.
const MAX_BYTES: usize = 64 * 1024;

/// Reads and discards what arrives on a connection whose sending side is closed.
#[derive(Debug)]
pub(super) struct LingeringClose {
    deadline: Pin<Box<Sleep>>,
    /// The time of the last read.
    last_read: Instant,
    /// How long the client may send nothing.
    timeout: Duration,
    /// The time that no deadline exceeds.
    end: Instant,
    discarded: usize,
}

impl LingeringClose {
    /// Begins with the time limit.
    pub(super) fn new() -> Self {
        let (deadline, now) = (Box::pin(sleep(TIMEOUT)), Instant::now());
        Self { deadline, last_read: now, timeout: TIMEOUT, end: now + MAX_TIME, discarded: 0 }
    }

    /// Ready when the client has closed the connection, or is no longer waited for. In a shutdown, a silent client is
    /// waited for less.
    pub(super) fn poll_closed<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        is_draining: bool,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if is_draining && self.timeout != DRAIN_TIMEOUT {
            self.timeout = DRAIN_TIMEOUT;
            self.set_deadline();
        }
        let mut bytes = [0; 512];
        while self.discarded < MAX_BYTES {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.discarded += buffer.filled().len();
                    self.last_read = Instant::now();
                    self.set_deadline();
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.deadline.as_mut().poll(context),
            }
        }
        Poll::Ready(())
    }

    fn set_deadline(&mut self) {
        self.deadline.as_mut().reset(self.end.min(self.last_read + self.timeout));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_is_waited_for_until_it_closes() {
        let (mut client, mut server) = duplex(1_024);
        let mut closing = LingeringClose::new();
        for _ in 0..10 {
            client.write_all(&[0; 13]).await.unwrap();
            assert!(
                poll_fn(|cx| closing.poll_closed(&mut server, false, cx)).now_or_never().is_none()
            );
            tokio::time::advance(MAX_TIME / 12).await;
        }
        drop(client);
        assert!(poll_fn(|cx| closing.poll_closed(&mut server, false, cx)).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_waited_for_until_the_timeout() {
        let (_client, mut server) = duplex(1_024);
        let (began, mut closing) = (Instant::now(), LingeringClose::new());
        poll_fn(|cx| closing.poll_closed(&mut server, false, cx)).await;
        assert!(began.elapsed() >= TIMEOUT);
    }

    /// Regression test: a drain waited five seconds for it.
    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_waited_for_less_in_a_shutdown() {
        let (_client, mut server) = duplex(1_024);
        let (began, mut closing) = (Instant::now(), LingeringClose::new());
        assert!(poll_fn(|cx| closing.poll_closed(&mut server, false, cx)).now_or_never().is_none());
        poll_fn(|cx| closing.poll_closed(&mut server, true, cx)).await;
        assert!((DRAIN_TIMEOUT..TIMEOUT).contains(&began.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_now_and_then_is_not_waited_for_without_an_end() {
        let (mut client, mut server) = duplex(1_024);
        let (began, mut closing) = (Instant::now(), LingeringClose::new());
        let send = async {
            while client.write_all(&[0]).await.is_ok() {
                sleep(TIMEOUT / 2).await;
            }
        };
        tokio::select! {
            () = poll_fn(|cx| closing.poll_closed(&mut server, false, cx)) => {}
            () = send => unreachable!("the connection is open"),
        }
        assert!((MAX_TIME..MAX_TIME + TIMEOUT).contains(&began.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_without_an_end_is_not_waited_for() {
        let (mut client, mut server) = duplex(1_024);
        let mut closing = LingeringClose::new();
        let flood = async { while client.write_all(&[0; 1_024]).await.is_ok() {} };
        tokio::select! {
            () = poll_fn(|cx| closing.poll_closed(&mut server, false, cx)) => {}
            () = flood => unreachable!("the connection is open"),
        }
        assert_eq!(closing.discarded, MAX_BYTES);
    }
}
