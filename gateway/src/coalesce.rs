//! A connection that writes short pieces in one.
//!
//! A message is a head and a body, an event of a stream the body and two ends of a line; the kernel takes
//! several pieces at a higher price than it costs to put a few KiB together.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

/// What is put together, in bytes; beyond that a copy costs more than it saves.
const SHORT: usize = 4 * 1024;

/// A connection, as hyper reads and writes it.
pub struct Coalesced<S>(S);

impl<S> Coalesced<S> {
    /// Wraps a connection that has nothing more to say of how it is written.
    pub fn new(connection: S) -> Self {
        Self(connection)
    }
}

impl<S: Read + Unpin> Read for Coalesced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Coalesced<S> {
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
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let connection = Pin::new(&mut self.0);
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() > SHORT {
            return connection.poll_write_vectored(context, pieces);
        }
        let mut whole = [0; SHORT];
        let mut length = 0;
        for piece in pieces {
            whole[length..length + piece.len()].copy_from_slice(piece);
            length += piece.len();
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
            pieces: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let before = self.whole.len();
            for piece in pieces {
                let room = self.at_once - (self.whole.len() - before);
                self.whole.extend_from_slice(&piece[..piece.len().min(room)]);
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

    /// Writes pieces of so many bytes to the end, as hyper does, and returns how the connection got them.
    fn write(lengths: &[usize], at_once: usize) -> Vec<&'static str> {
        let expected: Vec<_> = (0_u8..=u8::MAX).cycle().take(lengths.iter().sum()).collect();
        let bytes = expected.clone();
        let mut left = &bytes[..];
        let pieces: Vec<_> =
            lengths.iter().map(|length| left.split_off(..*length).unwrap()).collect();
        let mut pieces: Vec<_> = pieces.into_iter().map(IoSlice::new).collect();
        let mut pieces = &mut pieces[..];
        let taking = Taking { at_once, whole: Vec::new(), writes: Vec::new() };
        let mut connection = Coalesced::new(taking);
        let mut context = Context::from_waker(Waker::noop());
        while !pieces.is_empty() {
            let taken = Pin::new(&mut connection).poll_write_vectored(&mut context, pieces);
            let Poll::Ready(Ok(taken)) = taken else { panic!("it takes what it gets") };
            IoSlice::advance_slices(&mut pieces, taken);
        }
        assert_eq!(connection.0.whole, expected);
        connection.0.writes
    }

    #[test]
    fn short_pieces_are_written_as_one() {
        assert_eq!(write(&[200, 700], usize::MAX), ["one"]);
        assert_eq!(write(&[3, 0, 90, 2], usize::MAX), ["one"]);
        assert_eq!(write(&[1, SHORT - 1], usize::MAX), ["one"]);
    }

    #[test]
    fn long_pieces_are_not_copied() {
        assert_eq!(write(&[2, SHORT - 1], usize::MAX), ["several"]);
        assert_eq!(write(&[200, 100_000, 2], usize::MAX), ["several"]);
    }

    #[test]
    fn what_is_taken_in_part_is_taken_in_the_end() {
        assert_eq!(write(&[200, 700], 300), ["one"; 3]);
        assert_eq!(write(&[200, 6_000, 2], 3_000), ["several", "one", "one"]);
    }
}
