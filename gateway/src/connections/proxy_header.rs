//! Reads the header of the PROXY protocol, versions 1 and 2, from the beginning of a connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use proxy_header::{Error, ParseConfig, ProxyHeader};
use tokio::io::{AsyncRead, ReadBuf};

/// The longest header that is read, in bytes. The addresses take less than 120, and extensions, which are ignored, some
/// hundred more.
const MAX_HEADER_BYTES: usize = 4 * 1024;
/// The bytes that are read at a time.
const READ_BYTES: usize = 512;

/// A header of which a part has arrived.
#[derive(Debug, Default)]
pub(super) struct ProxyHeaderReader(BytesMut);

/// A complete header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadHeader {
    /// The client's address; `None` if the proxy speaks for itself, as in a health check.
    pub(super) source: Option<SocketAddr>,
    /// What arrived after the header.
    pub(super) rest: Bytes,
}

impl ProxyHeaderReader {
    /// Reads until the header is complete.
    ///
    /// # Errors
    /// The connection fails or ends, or begins with something else.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<ReadHeader>> {
        loop {
            let mut bytes = [0; READ_BYTES];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.0.extend_from_slice(buffer.filled());
            let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
            let (source, length) = match ProxyHeader::parse(&self.0, config) {
                Ok((header, length)) => (header.proxied_address().map(|it| it.source), length),
                Err(Error::BufferTooShort) if self.0.len() < MAX_HEADER_BYTES => continue,
                Err(_) => {
                    let what = "the proxy sends no header of the PROXY protocol";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
                }
            };
            let mut bytes = std::mem::take(&mut self.0).freeze();
            let rest = bytes.split_off(length);
            return Poll::Ready(Ok(ReadHeader { source, rest }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;

    use proxy_header::ProxiedAddress;
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    async fn read(bytes: &[u8]) -> io::Result<ReadHeader> {
        // One byte at a time.
        let (mut client, mut server) = duplex(1);
        let mut reader = ProxyHeaderReader::default();
        let write = async {
            _ = client.write_all(bytes).await;
            drop(client);
            std::future::pending::<Infallible>().await
        };
        let read = poll_fn(|context| reader.poll_read(&mut server, context));
        tokio::select! {
            read = read => read,
            never = write => match never {},
        }
    }

    fn encoded() -> [Vec<u8>; 2] {
        let (source, destination) = ("192.0.2.7:7".parse().unwrap(), "10.0.0.1:1".parse().unwrap());
        let header = ProxyHeader::with_address(ProxiedAddress::stream(source, destination));
        let (mut v1, mut v2) = (Vec::new(), Vec::new());
        header.encode_v1(&mut v1).unwrap();
        header.encode_v2(&mut v2).unwrap();
        [v1, v2]
    }

    #[tokio::test]
    async fn both_versions_report_the_client() {
        for header in encoded() {
            let read = read(&header).await.unwrap();
            assert_eq!((read.source, &*read.rest), ("192.0.2.7:7".parse().ok(), &b""[..]));
        }
        let own = read(b"PROXY UNKNOWN\r\n").await.unwrap();
        assert_eq!(own.source, None);
    }

    #[tokio::test]
    async fn what_follows_the_header_is_kept() {
        for header in encoded() {
            let mut stream = &[&header[..], b"GET /"].concat()[..];
            let mut reader = ProxyHeaderReader::default();
            let read = poll_fn(|context| reader.poll_read(&mut stream, context)).await.unwrap();
            assert_eq!(&*read.rest, b"GET /");
        }
    }

    #[tokio::test]
    async fn anything_else_is_an_error() {
        let [_, mut endless] = encoded();
        endless[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        endless.resize(100_000, 0);
        for (bytes, kind) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], io::ErrorKind::InvalidData),
            (b"PROXY TCP4 192.0.2.7", io::ErrorKind::UnexpectedEof),
            (b"", io::ErrorKind::UnexpectedEof),
            (&endless, io::ErrorKind::InvalidData),
        ] {
            assert_eq!(read(bytes).await.unwrap_err().kind(), kind, "{bytes:?}");
        }
    }
}
