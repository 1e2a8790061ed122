//! Sends requests over connections that stay open.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The connections, each of which has one request at a time.
const CONNECTIONS: usize = 16;
/// The words of a streamed answer, which are as many events. The simulator sends them at once.
const WORDS: usize = 200;

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A chat request.
    Plain,
    /// A streamed one whose events arrive in bursts.
    Burst,
}

/// The clients of a gateway.
pub(crate) struct Load {
    to: SocketAddr,
    clients: Vec<SendRequest<Full<Bytes>>>,
    authorization: String,
    _connections: JoinSet<()>,
}

// === impl Kind ===

impl Kind {
    /// Returns how many of these take about as long as `requests` plain requests.
    pub(crate) fn count(self, requests: usize) -> usize {
        match self {
            Self::Plain => requests,
            Self::Burst => requests / 20,
        }
    }

    /// Returns the number of measured units in `count` requests.
    pub(crate) fn units(self, count: usize) -> f64 {
        let units = match self {
            Self::Plain => count,
            Self::Burst => count * WORDS,
        };
        f64::from(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Returns what the units are.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Plain => "plain request",
            Self::Burst => "burst event",
        }
    }
}

// === impl Load ===

impl Load {
    pub(crate) async fn connect(to: SocketAddr, key: &str) -> Self {
        let (mut clients, mut connections) = (Vec::new(), JoinSet::new());
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(to).await.expect("the gateway accepts");
            stream.set_nodelay(true).expect("it is a TCP socket");
            let (client, connection) =
                http1::handshake(TokioIo::new(stream)).await.expect("a new connection is usable");
            clients.push(client);
            connections.spawn(async move { _ = connection.await });
        }
        let authorization = format!("Bearer {key}");
        Self { to, clients, authorization, _connections: connections }
    }

    /// Sends `count` requests and waits for their answers, each of which must be complete.
    pub(crate) async fn send(&mut self, kind: Kind, model: &str, count: usize) {
        let mut sending = JoinSet::new();
        for (number, mut client) in self.clients.drain(..).enumerate() {
            let share = (count + number) / CONNECTIONS;
            let request = request(self.to, &self.authorization, kind, model);
            sending.spawn(async move {
                for _ in 0..share {
                    ask(&mut client, request.clone()).await;
                }
                client
            });
        }
        self.clients = sending.join_all().await;
    }
}

fn request(
    to: SocketAddr,
    authorization: &str,
    kind: Kind,
    model: &str,
) -> http::Request<Full<Bytes>> {
    let script = match kind {
        Kind::Plain => String::new(),
        Kind::Burst => format!(" [sim words={WORDS}]"),
    };
    let text = format!("{}{script}", "Why is the sky blue? ".repeat(30));
    let body = json!({
        "model": model,
        "stream": kind == Kind::Burst,
        "messages": [{ "role": "user", "content": text }],
    });
    http::Request::post("/v1/chat/completions")
        .header("host", to.to_string())
        .header("authorization", authorization)
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()))
        .expect("the request is well-formed")
}

async fn ask(client: &mut SendRequest<Full<Bytes>>, request: http::Request<Full<Bytes>>) {
    client.ready().await.expect("the connection stays open");
    let answer = client.send_request(request).await.expect("an answer");
    let (status, body) = (answer.status(), answer.into_body().collect().await);
    let body = body.expect("the answer is complete").to_bytes();
    assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
}
