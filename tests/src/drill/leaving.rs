//! Clients that leave before, in and after an answer, in every way that TCP has.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::client::{Client, Seen, Shape};
use super::draw;
use crate::http::{Answer, Request};
use crate::soon;

/// An answer that would take a day: the upstream ends it only because it is told to.
const ENDLESS: &str = "[sim words=1000 pace_ms=100000]";
/// An answer that does not begin.
const SILENT: &str = "[sim latency_ms=100000000]";
/// An answer that fills what buffers there are on its way, or nearly.
const LONG: &str = "[sim words=30000 chunk=1000]";
/// An answer for a client that takes its time.
const MIDDLING: &str = "[sim words=300]";

/// When a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Half of its body is sent.
    InBody,
    /// It waits for an answer that does not begin.
    BeforeHead,
    /// It has had some pieces of an answer that does not end.
    InStream,
    /// It reads nothing of a long answer.
    Deaf,
    /// It is slow, and reads all.
    Slow,
    /// It closes its side of the connection, and reads what comes.
    HalfClosed,
    /// It has read all, but for the end of the connection.
    AtEnd,
    /// At any moment of a short answer.
    AnyTime,
}

impl Manner {
    /// Every manner.
    pub(super) const ALL: [Self; 8] = [
        Self::InBody,
        Self::BeforeHead,
        Self::InStream,
        Self::Deaf,
        Self::Slow,
        Self::HalfClosed,
        Self::AtEnd,
        Self::AnyTime,
    ];

    fn script(self) -> &'static str {
        match self {
            Self::BeforeHead => SILENT,
            Self::InStream => ENDLESS,
            Self::Deaf => LONG,
            Self::Slow => MIDDLING,
            Self::InBody | Self::HalfClosed | Self::AtEnd | Self::AnyTime => "",
        }
    }

    /// A way to ask, out of those that one can leave so.
    fn shape(self) -> Shape {
        let shapes = match self {
            Self::InStream | Self::Deaf => &[Shape::ChatStream, Shape::ResponsesStream][..],
            _ => &Shape::QUICK[..],
        };
        shapes[usize::try_from(draw(shapes.len() as u64)).unwrap_or_default()]
    }
}

/// Asks, and leaves so. Returns the end of the answer if the client has seen it.
pub(super) async fn visit(client: &Client, manner: Manner, text: &str) -> Option<Seen> {
    let shape = manner.shape();
    let request = client.request(shape, &format!("{text} {}", manner.script()), None);
    // half of all connections are reset, not closed
    let request = if draw(2) == 0 { request.socket(TcpSocket::set_zero_linger) } else { request };
    let moment = Duration::from_micros(draw(20_000));
    match manner {
        Manner::InBody => {
            let bytes = request.bytes();
            let mut stream = send(&request, &bytes[..bytes.len() - 20]).await?;
            stream.flush().await.ok()?;
            tokio::time::sleep(moment).await;
            None
        }
        Manner::HalfClosed => {
            let mut stream = send(&request, &request.bytes()).await?;
            stream.shutdown().await.ok()?;
            let mut rest = Vec::new();
            _ = soon("the end of a connection", stream.read_to_end(&mut rest)).await;
            None
        }
        Manner::BeforeHead => {
            // who is refused gets an answer all the same
            let exchange = tokio::time::timeout(moment, request.try_send()).await.ok()?.ok()?;
            Seen::of(shape, &exchange.try_answer().await.ok()?)
        }
        Manner::InStream => {
            let mut exchange = request.try_send().await.ok()?;
            if exchange.status != 200 {
                return Seen::of(shape, &exchange.try_answer().await.ok()?);
            }
            for _ in 0..draw(2) {
                exchange.piece().await.ok()?;
            }
            None
        }
        Manner::Deaf => {
            let exchange = small_buffer(request).try_send().await.ok()?;
            tokio::time::sleep(moment).await;
            drop(exchange);
            None
        }
        Manner::Slow => {
            let mut exchange = small_buffer(request).try_send().await.ok()?;
            let mut body = BytesMut::new();
            while let Some(piece) = exchange.piece().await.ok()? {
                body.extend_from_slice(&piece);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (status, headers) = (exchange.status, exchange.headers.clone());
            Seen::of(shape, &Answer { status, headers, body: body.freeze() })
        }
        Manner::AtEnd => Seen::of(shape, &request.try_send().await.ok()?.try_answer().await.ok()?),
        Manner::AnyTime => {
            let answer = async { request.try_send().await.ok()?.try_answer().await.ok() };
            Seen::of(shape, &tokio::time::timeout(moment, answer).await.ok()??)
        }
    }
}

/// Lets little of the answer wait at the client. Such a connection is closed, not reset.
fn small_buffer(request: Request) -> Request {
    request.socket(|socket| socket.set_recv_buffer_size(4 * 1024))
}

async fn send(request: &Request, bytes: &[u8]) -> Option<TcpStream> {
    let mut stream = request.connect().await.ok()?;
    stream.write_all(bytes).await.ok()?;
    Some(stream)
}
