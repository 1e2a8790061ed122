//! What a hostile upstream does with a request of HTTP/1.1.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::super::choices::Choices;
use super::{FIRST, GZIPPED, PLAIN, Step, is_stream, parts};

/// A way to mistreat a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Behavior {
    /// Sends nothing more from this step on.
    Stall(Step),
    /// Resets the connection at this step.
    Reset(Step),
    /// Closes the connection before a random byte of the answer.
    Cut,
    /// Sends all but the end marker of a stream, or a plain answer, without a length, and closes the connection. Over TLS,
    /// it does not announce that.
    Unterminated,
    /// Sends bytes that are not HTTP.
    Garbage,
    /// Sends a page with status 200.
    Html,
    /// Sends a redirect.
    Redirect,
    /// Sends headers without an end.
    EndlessHead,
    /// Sends events, or the text of a plain answer, without an end.
    EndlessBody,
    /// Sends an event, or the whitespace before a plain answer, without an end.
    EndlessEvent,
    /// Sends interim answers without an end.
    InterimFlood,
    /// Sends a whole answer with this `content-encoding`, which it does not have.
    Declares(&'static str),
    /// Sends a body in gzip without saying so.
    Gzipped,
    /// Sends a whole answer in writes of one byte.
    Crumbs,
    /// Sends bytes after a whole answer.
    TrailingGarbage,
}

/// A connection that can be reset.
pub(in super::super) trait Connection:
    AsyncRead + AsyncWrite + Unpin + Send
{
    /// Has the connection reset when it is dropped.
    fn reset_on_drop(&self) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn reset_on_drop(&self) -> io::Result<()> {
        self.set_zero_linger()
    }
}

impl Connection for TlsStream<TcpStream> {
    fn reset_on_drop(&self) -> io::Result<()> {
        self.get_ref().0.set_zero_linger()
    }
}

/// Answers requests until the connection is closed, and counts those that were read whole.
pub(super) async fn serve(
    mut stream: impl Connection,
    behavior: Behavior,
    choices: Choices,
    received: &AtomicUsize,
) {
    if let Behavior::Reset(_) = behavior
        && stream.reset_on_drop().is_err()
    {
        return;
    }
    while answer(&mut stream, behavior, choices, received).await.is_ok() {}
}

/// Reads a request whose body is a JSON object, or a GET.
pub(in super::super) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Vec<u8>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    let is_whole = |request: &[u8]| {
        request.ends_with(b"}") || request.starts_with(b"GET ") && request.ends_with(b"\r\n\r\n")
    };
    while !is_whole(&request) {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        request.extend_from_slice(&buffer[..read]);
    }
    Ok(request)
}

/// Returns a complete answer to a request, streamed if it asks for that.
pub(in super::super) fn whole_answer(request: &[u8]) -> String {
    let body = parts(request).concat();
    head(request, &format!("content-length: {}\r\n", body.len())) + &body
}

fn head(request: &[u8], fields: &str) -> String {
    let kind = if is_stream(request) { "text/event-stream" } else { "application/json" };
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{fields}\r\n")
}

fn closed<T>() -> io::Result<T> {
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// Answers the next request of a connection. An error closes the connection.
async fn answer(
    stream: &mut impl Connection,
    behavior: Behavior,
    choices: Choices,
    received: &AtomicUsize,
) -> io::Result<()> {
    match behavior {
        Behavior::Stall(Step::Accept) => return std::future::pending().await,
        Behavior::Reset(Step::Accept) => return closed(),
        _ => {}
    }
    let request = read_request(stream).await?;
    received.fetch_add(1, Ordering::Relaxed);
    let whole = whole_answer(&request);
    match behavior {
        Behavior::Stall(step) => {
            stream.write_all(beginning(&request, &whole, step).as_bytes()).await?;
            stream.flush().await?;
        }
        Behavior::Reset(step) => {
            stream.write_all(beginning(&request, &whole, step).as_bytes()).await?;
            stream.flush().await?;
            return closed();
        }
        Behavior::Cut => {
            let end = whole.find("[DONE]").unwrap_or(whole.len());
            let body = request.split(|&byte| byte == b'\n').next_back();
            stream.write_all(&whole.as_bytes()[..choices.below(end, body)]).await?;
            stream.flush().await?;
            return closed();
        }
        Behavior::Unterminated => {
            let body = parts(&request);
            let end = if is_stream(&request) { 2 } else { body.len() };
            let sent = head(&request, "connection: close\r\n") + &body[..end].concat();
            stream.write_all(sent.as_bytes()).await?;
            stream.flush().await?;
            return closed();
        }
        Behavior::Garbage => {
            stream.write_all(&[0x16, 0xff, 0, b'\n'].repeat(64)).await?;
            return closed();
        }
        Behavior::Html => {
            let page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 21\r\n\r\n\
                <html>it works</html>";
            return stream.write_all(page).await;
        }
        Behavior::Redirect => {
            let moved = b"HTTP/1.1 302 Found\r\nlocation: /v2\r\ncontent-length: 0\r\n\r\n";
            return stream.write_all(moved).await;
        }
        Behavior::EndlessHead => {
            return repeat(stream, "HTTP/1.1 200 OK\r\n", "x-more: of the same\r\n").await;
        }
        Behavior::EndlessBody if is_stream(&request) => {
            return repeat(stream, &head(&request, ""), FIRST).await;
        }
        Behavior::EndlessBody => {
            let begun = head(&request, "") + &PLAIN[..PLAIN.find("hi").unwrap_or_default()];
            return repeat(stream, &begun, "more and more ").await;
        }
        Behavior::EndlessEvent if is_stream(&request) => {
            return repeat(stream, &(head(&request, "") + "data: "), "more and more ").await;
        }
        Behavior::EndlessEvent => return repeat(stream, &head(&request, ""), "          ").await,
        Behavior::InterimFlood => {
            return repeat(stream, "", "HTTP/1.1 103 Early Hints\r\n\r\n").await;
        }
        Behavior::Declares(encoding) => {
            let body = parts(&request).concat();
            let fields =
                format!("content-encoding: {encoding}\r\ncontent-length: {}\r\n", body.len());
            return stream.write_all((head(&request, &fields) + &body).as_bytes()).await;
        }
        Behavior::Gzipped => {
            let head = head(&request, &format!("content-length: {}\r\n", GZIPPED.len()));
            return stream.write_all(&[head.as_bytes(), GZIPPED].concat()).await;
        }
        Behavior::Crumbs => {
            for byte in whole.as_bytes() {
                stream.write_all(&[*byte]).await?;
                stream.flush().await?;
            }
            return Ok(());
        }
        Behavior::TrailingGarbage => stream.write_all((whole + "\0garbage").as_bytes()).await?,
    }
    std::future::pending().await
}

/// Returns what is sent of an answer before `step`.
fn beginning<'a>(request: &[u8], whole: &'a str, step: Step) -> &'a str {
    let parts = parts(request);
    let length = match step {
        Step::Accept | Step::Request => 0,
        Step::Head => "HTTP/1.1 200 OK\r\n".len(),
        Step::Event => whole.len() - parts[1..].concat().len(),
        Step::End => whole.len() - parts.last().map_or(0, |part| part.len()),
    };
    &whole[..length]
}

/// Sends `first`, and then `repeated` until the connection is closed.
async fn repeat(stream: &mut impl Connection, first: &str, repeated: &str) -> io::Result<()> {
    stream.write_all(first.as_bytes()).await?;
    let burst = repeated.repeat(256);
    loop {
        stream.write_all(burst.as_bytes()).await?;
    }
}
