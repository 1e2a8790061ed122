//! An upstream that sends exactly the bytes that the test gives.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::tls::Certificate;
use crate::transport::Transport;
use crate::with_timeout;

/// Text of so few tokens that no cap ends the answer before the socket buffers are full.
pub const FEW_TOKENS: &str = "-----";

/// A listening upstream, with TLS if the environment chooses it. The test answers its connections one by one.
pub struct RawUpstream {
    /// The base URL for the catalogue.
    pub url: String,
    /// The connections, in the order of their acceptance.
    connections: Mutex<UnboundedReceiver<Box<dyn Stream>>>,
    _accepting: JoinSet<()>,
}

/// An accepted connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A received request and the connection to answer it on. Dropping it closes the connection.
pub struct Call {
    /// The request line and the headers, as received.
    pub head: String,
    /// The body, as received.
    pub body: String,
    stream: Box<dyn Stream>,
}

// === impl RawUpstream ===

impl RawUpstream {
    /// Listens on a free port.
    ///
    /// # Panics
    /// If there is none.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let acceptor = Transport::of_environment()
            .has_tls()
            .then(|| Certificate::of_process().acceptor("http/1.1"));
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/v1", listener.local_addr().unwrap());
        let (accepted, connections) = unbounded_channel::<Box<dyn Stream>>();
        let mut accepting = JoinSet::new();
        // The handshakes need a task, because connecting to an upstream that answers nothing must succeed.
        accepting.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // The first bytes of an answer must not wait for an acknowledgement of the handshake's last ones.
                stream.set_nodelay(true).unwrap();
                let stream: Box<dyn Stream> = match &acceptor {
                    None => Box::new(stream),
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => Box::new(stream),
                        // The gateway has given the connection up.
                        Err(_) => continue,
                    },
                };
                if accepted.send(stream).is_err() {
                    break;
                }
            }
        });
        Self { url, connections: Mutex::new(connections), _accepting: accepting }
    }

    /// Waits for the next request.
    ///
    /// # Panics
    /// If none arrives.
    pub async fn call(&self) -> Call {
        let receive = async {
            let mut stream = self.connections.lock().await.recv().await.unwrap();
            let mut bytes = Vec::new();
            loop {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the request ends early");
                bytes.extend_from_slice(&buffer[..read]);
                let text = std::str::from_utf8(&bytes).unwrap();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                if body.len() >= content_length(head) {
                    let (head, body) = (head.to_owned(), body.to_owned());
                    return Call { head, body, stream };
                }
            }
        };
        with_timeout("a request upstream", receive).await
    }

    /// Answers the next request with these bytes and closes the connection.
    pub async fn answer(&self, bytes: impl AsRef<[u8]>) -> Call {
        let mut call = self.call().await;
        call.send(bytes).await;
        call.finish().await;
        call
    }

    /// Answers the next request with a stream that ends only when the gateway disconnects.
    pub async fn answer_endlessly(&self) {
        self.begin_stream().await.stream_endlessly("word ").await;
    }

    /// Answers the next request with the head of a stream.
    pub async fn begin_stream(&self) -> Call {
        let mut call = self.call().await;
        call.send(stream_head()).await;
        call
    }
}

fn content_length(head: &str) -> usize {
    if head.starts_with("GET ") {
        return 0;
    }
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim().parse().unwrap())
        .expect("the gateway sends content-length")
}

// === impl Call ===

impl Call {
    /// Sends bytes.
    ///
    /// # Panics
    /// If the gateway has closed the connection.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        assert!(self.try_send(bytes).await, "the gateway has closed the connection");
    }

    /// Sends bytes. Returns `false` if the gateway has closed the connection.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        // A TLS stream keeps what the socket does not take at once until it is flushed.
        self.stream.write_all(bytes.as_ref()).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Sends words until the gateway closes the connection.
    pub async fn stream_endlessly(&mut self, word: &str) {
        let delta = json!({ "content": word.repeat(1_000) });
        let piece = json!({ "choices": [{ "index": 0, "delta": delta }] });
        while self.try_send(chunk(&format!("data: {piece}\n\n"))).await {}
    }

    /// Closes the sending side of the connection.
    ///
    /// # Panics
    /// If the connection is broken.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Waits until the gateway has closed the connection.
    pub async fn closed(&mut self) {
        let mut buffer = [0; 64];
        let closing = async { while matches!(self.stream.read(&mut buffer).await, Ok(1..)) {} };
        with_timeout("the gateway's end of an upstream connection", closing).await;
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the body.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Returns an HTTP response with `content-length`. `extra` contains further header lines, each with
/// its line end.
pub fn raw_answer(status: u16, extra: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Such\r\nconnection: close\r\n{extra}content-length: {length}\r\n\r\n{body}"
    )
}

/// Returns a JSON response.
pub fn json_answer(status: u16, body: &str) -> String {
    raw_answer(status, "content-type: application/json\r\n", body)
}

/// Returns the head of a chunked event stream.
pub fn stream_head() -> &'static str {
    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
}

/// Encodes bytes as a chunk of the transfer encoding. An empty chunk ends the body.
pub fn chunk(bytes: &str) -> String {
    let mut chunk = String::new();
    _ = write!(chunk, "{:x}\r\n{bytes}\r\n", bytes.len());
    chunk
}

/// Returns the URL of a port without a listener.
///
/// # Panics
/// If there is no free port.
pub async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}
