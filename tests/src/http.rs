//! A client of the API. It uses one connection per request, so dropping the response disconnects.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::rt::Executor;
use hyper::{Method, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::with_timeout;

/// A request, not yet sent.
#[derive(Clone, Debug)]
pub struct Request {
    to: SocketAddr,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    set_up: fn(&TcpSocket) -> io::Result<()>,
    is_http2: bool,
    /// The configuration of TLS to `localhost`; `None` for none.
    tls: Option<Arc<ClientConfig>>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// A response of which at least the head has arrived. Dropping it closes the connection.
pub struct PendingAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    /// Received bytes that were not yet returned.
    unread: BytesMut,
    _connection: DropGuard,
}

/// Runs the tasks of a connection until it is dropped. HTTP/2 has several, which would otherwise outlive the one that
/// the test owns, and delay the end of the connection.
#[derive(Clone, Default)]
struct ConnectionTasks(CancellationToken);

// === impl Request ===

impl Request {
    /// Returns a GET request.
    pub fn get(to: SocketAddr, path: &str) -> Self {
        Self::new(to, Method::GET, path)
    }

    /// Returns a POST request.
    pub fn post(to: SocketAddr, path: &str) -> Self {
        Self::new(to, Method::POST, path)
    }

    /// Returns a request without headers and body.
    pub fn new(to: SocketAddr, method: Method, path: &str) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self {
            to,
            method,
            path: path.to_owned(),
            headers,
            body,
            set_up: |_| Ok(()),
            is_http2: false,
            tls: None,
        }
    }

    /// Adds a header.
    ///
    /// # Panics
    /// If the value is not valid.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        self
    }

    /// Adds the key as a bearer token.
    #[must_use]
    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string()).header("content-type", "application/json")
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Has `set_up` configure the socket before it connects.
    #[must_use]
    pub fn socket(mut self, set_up: fn(&TcpSocket) -> io::Result<()>) -> Self {
        self.set_up = set_up;
        self
    }

    /// Has the request sent over HTTP/2.
    #[must_use]
    pub fn http2(mut self) -> Self {
        self.is_http2 = true;
        self
    }

    /// Has the request sent over TLS, to the host `localhost`.
    #[must_use]
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Returns the encoded HTTP/1.1 request.
    ///
    /// # Panics
    /// If a header is not text, or if the request is not to be sent over HTTP/1.1 in plaintext.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { to, method, path, headers, body, is_http2, tls, .. } = self;
        assert!(!is_http2 && tls.is_none(), "a test that writes bytes begins with `on_http1`");
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {to}\r\n");
        for (name, value) in headers {
            _ = write!(text, "{name}: {}\r\n", value.to_str().unwrap());
        }
        _ = write!(text, "content-length: {}\r\n\r\n", body.len());
        [text.as_bytes(), body].concat()
    }

    /// Connects to the address of the request.
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        (self.set_up)(&socket)?;
        socket.connect(self.to).await
    }

    /// Sends the request and waits for the head of the response.
    ///
    /// # Panics
    /// If none arrives.
    pub async fn send(self) -> PendingAnswer {
        self.try_send().await.unwrap()
    }

    /// Sends the request and waits for the head of the response.
    ///
    /// # Errors
    /// The connection broke before.
    ///
    /// # Panics
    /// If none arrives in time.
    pub async fn try_send(self) -> anyhow::Result<PendingAnswer> {
        let stream = self.connect().await?;
        // Boxed, as the futures of the handshakes are large.
        let Some(config) = self.tls.clone() else {
            return Box::pin(self.exchange(stream)).await;
        };
        let host = ServerName::try_from("localhost")?;
        let stream = Box::pin(TlsConnector::from(config).connect(host, stream)).await?;
        Box::pin(self.exchange(stream)).await
    }

    async fn exchange<S>(self, stream: S) -> anyhow::Result<PendingAnswer>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        let tasks = ConnectionTasks::default();
        let guard = tasks.0.clone().drop_guard();
        let mut request = hyper::Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.headers_mut() = self.headers;
        let response = if self.is_http2 {
            *request.uri_mut() = Uri::try_from(format!("http://{}{}", self.to, self.path))?;
            let (mut sender, connection) = http2::handshake(tasks.clone(), stream).await?;
            tasks.execute(connection);
            with_timeout("an answer", sender.send_request(request)).await?
        } else {
            *request.uri_mut() = Uri::try_from(self.path)?;
            request.headers_mut().insert(HOST, HeaderValue::from_str(&self.to.to_string())?);
            let (mut sender, connection) = http1::handshake(stream).await?;
            tasks.execute(connection);
            with_timeout("an answer", sender.send_request(request)).await?
        };
        let (head, body) = response.into_parts();
        Ok(PendingAnswer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            unread: BytesMut::new(),
            _connection: guard,
        })
    }

    /// Sends the request and waits for the whole response.
    ///
    /// # Panics
    /// If it is truncated.
    pub async fn answer(self) -> Answer {
        self.send().await.answer().await
    }
}

// === impl ConnectionTasks ===

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for ConnectionTasks {
    fn execute(&self, task: F) {
        let dropped = self.0.clone();
        let task = async move { _ = dropped.run_until_cancelled_owned(task).await };
        TokioExecutor::new().execute(task);
    }
}

// === impl PendingAnswer ===

impl PendingAnswer {
    /// Reads the rest of the response.
    ///
    /// # Panics
    /// If it is truncated.
    pub async fn answer(self) -> Answer {
        self.try_answer().await.unwrap()
    }

    /// Reads the rest of the response.
    ///
    /// # Errors
    /// It is truncated.
    pub async fn try_answer(self) -> anyhow::Result<Answer> {
        let (status, headers) = (self.status, self.headers);
        let mut body = self.unread;
        body.extend_from_slice(
            &with_timeout("the end of an answer", self.body.collect()).await?.to_bytes(),
        );
        Ok(Answer { status, headers, body: body.freeze() })
    }

    /// Returns the next bytes of the body as received; `None` at the end.
    ///
    /// # Errors
    /// The body is truncated.
    pub async fn piece(&mut self) -> anyhow::Result<Option<Bytes>> {
        let frame = with_timeout("a piece of an answer", self.body.frame()).await;
        Ok(frame.transpose()?.and_then(|frame| frame.into_data().ok()))
    }

    /// Returns the next event of a stream without its blank line; `None` at the end.
    ///
    /// # Panics
    /// If the stream breaks, or ends within an event.
    pub async fn event(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let event = self.unread.split_to(end + 2);
                return Some(String::from_utf8(event[..end].to_vec()).unwrap());
            }
            let Some(frame) = with_timeout("an event", self.body.frame()).await else {
                assert!(self.unread.is_empty(), "the stream ends within an event");
                return None;
            };
            self.unread.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    /// Returns all remaining events.
    pub async fn events(mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }
}

// === impl Answer ===

impl Answer {
    /// Returns the body as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns the text of a header; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("(not text)"))
    }

    /// Returns the events of a stream.
    pub fn events(&self) -> Vec<&str> {
        self.text().split_terminator("\n\n").collect()
    }

    /// Returns the `error` of an error body and checks that it has exactly its four keys.
    ///
    /// # Panics
    /// If the body is not such an error.
    pub fn error(&self) -> Value {
        let mut body = self.json();
        let error = body["error"].take();
        let keys: Vec<_> = error.as_object().unwrap_or_else(|| panic!("{self:?}")).keys().collect();
        assert_eq!(keys, ["code", "message", "param", "type"], "{self:?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        assert!(error["type"].is_string(), "{self:?}");
        error
    }
}

/// Returns the concatenated text of a stream's first choice.
pub fn text_of(events: &[impl AsRef<str>]) -> String {
    let text = |event: &str| {
        let chunk: Value = serde_json::from_str(event.strip_prefix("data: ")?).ok()?;
        chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
    };
    events.iter().filter_map(|event| text(event.as_ref())).collect()
}

/// Sends `bytes` unchanged and reads until the other side closes the connection.
///
/// # Panics
/// If the connection is refused.
pub async fn raw(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // a server that refuses early may close before all is sent
    _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    _ = with_timeout("the end of a connection", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}
