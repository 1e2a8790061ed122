//! Writes short buffers of a vectored write as one.
//!
//! hyper writes the head and body of a message, or the size, data and line end of a chunk, as several
//! buffers. A vectored write costs the kernel more than copying a few KiB. It is not used over TLS, which
//! copies in any case.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

/// The largest total that is copied, in bytes; small enough for the stack.
const MAX_COPIED_BYTES: usize = 4 * 1024;

/// A connection that hyper reads and writes.
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
        if buffers.iter().map(|buffer| buffer.len()).sum::<usize>() > MAX_COPIED_BYTES {
            return connection.poll_write_vectored(context, buffers);
        }
        let mut whole = [0; MAX_COPIED_BYTES];
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

    /// Accepts at most `at_once` bytes per write, and logs how they arrived.
    struct PartialWriter {
        at_once: usize,
        whole: Vec<u8>,
        writes: Vec<&'static str>,
    }

    impl Write for PartialWriter {
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

    /// Writes buffers of these lengths to the end, as hyper does, and returns how the connection received
    /// them.
    fn write(lengths: &[usize], at_once: usize) -> Vec<&'static str> {
        let expected: Vec<_> = (0_u8..=u8::MAX).cycle().take(lengths.iter().sum()).collect();
        let bytes = expected.clone();
        let mut left = &bytes[..];
        let buffer = |length: &usize| IoSlice::new(left.split_off(..*length).unwrap());
        let mut buffers: Vec<_> = lengths.iter().map(buffer).collect();
        let mut buffers = &mut buffers[..];
        let taking = PartialWriter { at_once, whole: Vec::new(), writes: Vec::new() };
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
        assert_eq!(write(&[1, MAX_COPIED_BYTES - 1], usize::MAX), ["one"]);
        assert_eq!(write(&[100_000], usize::MAX), ["one"]);
    }

    #[test]
    fn long_buffers_are_not_copied() {
        assert_eq!(write(&[2, MAX_COPIED_BYTES - 1], usize::MAX), ["several"]);
        assert_eq!(write(&[200, 100_000, 2], usize::MAX), ["several"]);
    }

    #[test]
    fn what_is_taken_in_part_is_taken_in_the_end() {
        assert_eq!(write(&[200, 700], 300), ["one"; 3]);
        assert_eq!(write(&[200, 6_000, 2], 3_000), ["several", "one", "one"]);
    }
}
