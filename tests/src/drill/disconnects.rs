//! Clients that disconnect before, during and after an answer, in every way that TCP allows.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::client::{Client, ObservedResponse, Shape};
use super::draw;
use crate::http::{Answer, Request};
use crate::with_timeout;

/// An answer that would take a day; it ends when the upstream is cancelled.
const ENDLESS: &str = "[sim words=1000 pace_ms=100000]";
/// An answer that does not begin.
const SILENT: &str = "[sim latency_ms=100000000]";
/// An answer that fills all buffers between simulator and client, or nearly.
const LONG: &str = "[sim words=30000 chunk=1000]";
/// An answer for a slow reader.
const MIDDLING: &str = "[sim words=300]";

/// When and how a client disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disconnect {
    /// After half of the request body.
    InBody,
    /// While it waits for an answer that does not begin.
    BeforeHead,
    /// After some pieces of an endless answer.
    InStream,
    /// Without reading a long answer.
    Deaf,
    /// Not before the end: it reads slowly.
    Slow,
    /// It shuts down its sending side and reads the answer.
    HalfClosed,
    /// After the last byte, before the connection ends.
    AtEnd,
    /// At a random time of a short answer.
    AnyTime,
}

impl Disconnect {
    /// All of them.
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

    /// Returns a random shape out of those that fit.
    fn shape(self) -> Shape {
        let shapes = match self {
            Self::InStream | Self::Deaf => &[Shape::ChatStream, Shape::ResponsesStream][..],
            _ => &Shape::QUICK[..],
        };
        shapes[usize::try_from(draw(shapes.len() as u64)).unwrap_or_default()]
    }
}

/// Sends a request and disconnects. Returns the response if it is complete.
pub(super) async fn visit(
    client: &Client,
    disconnect: Disconnect,
    text: &str,
) -> Option<ObservedResponse> {
    let shape = disconnect.shape();
    let request = client.request(shape, &format!("{text} {}", disconnect.script()), None);
    // half of all connections are reset, not closed
    let request = if draw(2) == 0 { request.socket(TcpSocket::set_zero_linger) } else { request };
    let moment = Duration::from_micros(draw(20_000));
    match disconnect {
        Disconnect::InBody => {
            let bytes = request.bytes();
            let mut stream = send(&request, &bytes[..bytes.len() - 20]).await?;
            stream.flush().await.ok()?;
            tokio::time::sleep(moment).await;
            None
        }
        Disconnect::HalfClosed => {
            let mut stream = send(&request, &request.bytes()).await?;
            stream.shutdown().await.ok()?;
            let mut rest = Vec::new();
            _ = with_timeout("the end of a connection", stream.read_to_end(&mut rest)).await;
            None
        }
        Disconnect::BeforeHead => {
            // a refused request is answered nevertheless
            let exchange = tokio::time::timeout(moment, request.try_send()).await.ok()?.ok()?;
            ObservedResponse::of(shape, &exchange.try_answer().await.ok()?)
        }
        Disconnect::InStream => {
            let mut exchange = request.try_send().await.ok()?;
            if exchange.status != 200 {
                return ObservedResponse::of(shape, &exchange.try_answer().await.ok()?);
            }
            for _ in 0..draw(2) {
                exchange.piece().await.ok()?;
            }
            None
        }
        Disconnect::Deaf => {
            let exchange = small_buffer(request).try_send().await.ok()?;
            tokio::time::sleep(moment).await;
            drop(exchange);
            None
        }
        Disconnect::Slow => {
            let mut exchange = small_buffer(request).try_send().await.ok()?;
            let mut body = BytesMut::new();
            while let Some(piece) = exchange.piece().await.ok()? {
                body.extend_from_slice(&piece);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (status, headers) = (exchange.status, exchange.headers.clone());
            ObservedResponse::of(shape, &Answer { status, headers, body: body.freeze() })
        }
        Disconnect::AtEnd => {
            ObservedResponse::of(shape, &request.try_send().await.ok()?.try_answer().await.ok()?)
        }
        Disconnect::AnyTime => {
            let answer = async { request.try_send().await.ok()?.try_answer().await.ok() };
            ObservedResponse::of(shape, &tokio::time::timeout(moment, answer).await.ok()??)
        }
    }
}

/// Sets a small receive buffer. Such a connection is closed, not reset.
fn small_buffer(request: Request) -> Request {
    request.socket(|socket| socket.set_recv_buffer_size(4 * 1024))
}

async fn send(request: &Request, bytes: &[u8]) -> Option<TcpStream> {
    let mut stream = request.connect().await.ok()?;
    stream.write_all(bytes).await.ok()?;
    Some(stream)
}
