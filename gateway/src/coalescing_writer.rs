//! A connection that writes short buffers as one.
//!
//! A message is a head and a body, a chunk of a stream its length, its data and an end of line: hyper writes
//! them as several buffers. The kernel asks more for taking several than it costs to copy a few KiB. Not for
//! use over TLS, which copies them in any case.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

/// What is put together, in bytes: little enough to lie on the stack.
const SHORT: usize = 4 * 1024;

/// A connection, as hyper reads and writes it.
pub struct CoalescingWriter<S>(S);

impl<S> CoalescingWriter<S> {
    /// Wraps `connection`.
    pub fn new(connection: S) -> Self {
        Self(connection)
    }
}

impl<S: Read + Unpin> Read for CoalescingWriter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for CoalescingWriter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let connection = Pin::new(&mut self.0);
        if let [only] = buffers {
            return connection.poll_write(context, only);
        }
        if buffers.iter().map(|buffer| buffer.len()).sum::<usize>() > SHORT {
            return connection.poll_write_vectored(context, buffers);
        }
        let mut whole = [0; SHORT];
        let mut length = 0;
        for buffer in buffers {
            whole[length..length + buffer.len()].copy_from_slice(buffer);
            length += buffer.len();
        }
        connection.poll_write(context, &whole[..length])
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes up to so many bytes at once, and keeps how they came.
    struct Taking {
        at_once: usize,
        whole: Vec<u8>,
        writes: Vec<&'static str>,
    }

    impl Write for Taking {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.at_once);
            self.whole.extend_from_slice(&bytes[..taken]);
            self.writes.push("one");
            Poll::Ready(Ok(taken))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffers: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let before = self.whole.len();
            for buffer in buffers {
                let room = self.at_once - (self.whole.len() - before);
                self.whole.extend_from_slice(&buffer[..buffer.len().min(room)]);
            }
            self.writes.push("several");
            Poll::Ready(Ok(self.whole.len() - before))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Writes buffers of so many bytes to the end, as hyper does, and returns how the connection got them.
    fn write(lengths: &[usize], at_once: usize) -> Vec<&'static str> {
        let expected: Vec<_> = (0_u8..=u8::MAX).cycle().take(lengths.iter().sum()).collect();
        let bytes = expected.clone();
        let mut left = &bytes[..];
        let buffer = |length: &usize| IoSlice::new(left.split_off(..*length).unwrap());
        let mut buffers: Vec<_> = lengths.iter().map(buffer).collect();
        let mut buffers = &mut buffers[..];
        let taking = Taking { at_once, whole: Vec::new(), writes: Vec::new() };
        let mut connection = CoalescingWriter::new(taking);
        let mut context = Context::from_waker(Waker::noop());
        while !buffers.is_empty() {
            let taken = Pin::new(&mut connection).poll_write_vectored(&mut context, buffers);
            let Poll::Ready(Ok(taken)) = taken else { panic!("it takes what it gets") };
            IoSlice::advance_slices(&mut buffers, taken);
        }
        assert_eq!(connection.0.whole, expected);
        connection.0.writes
    }

    #[test]
    fn short_buffers_are_written_as_one() {
        assert_eq!(write(&[200, 700], usize::MAX), ["one"]);
        assert_eq!(write(&[3, 0, 90, 2], usize::MAX), ["one"]);
        assert_eq!(write(&[1, SHORT - 1], usize::MAX), ["one"]);
        assert_eq!(write(&[100_000], usize::MAX), ["one"]);
    }

    #[test]
    fn long_buffers_are_not_copied() {
        assert_eq!(write(&[2, SHORT - 1], usize::MAX), ["several"]);
        assert_eq!(write(&[200, 100_000, 2], usize::MAX), ["several"]);
    }

    #[test]
    fn what_is_taken_in_part_is_taken_in_the_end() {
        assert_eq!(write(&[200, 700], 300), ["one"; 3]);
        assert_eq!(write(&[200, 6_000, 2], 3_000), ["several", "one", "one"]);
    }
}
