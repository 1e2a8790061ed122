//! Sends requests over connections that stay open, at a given rate or as fast as they are answered.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tests::NewKey;
use tests::process::Gateway;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at};

use crate::MODEL;

/// The connections to each gateway.
const CONNECTIONS: usize = 16;

/// A connection, which has one request at a time.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    request: http::Request<Full<Bytes>>,
    _connection: JoinSet<()>,
}

/// Clients of one or several gateways.
pub(crate) struct Load(Vec<Client>);

// === impl Client ===

impl Client {
    /// Connects a client that repeats a chat request.
    pub(crate) async fn of_chat(to: SocketAddr, key: &str) -> Self {
        let text = "Why is the sky blue? ".repeat(30);
        let messages = json!([{ "role": "user", "content": text }]);
        let body = json!({ "model": MODEL, "messages": messages }).to_string();
        let request = http::Request::post("/v1/chat/completions");
        Self::connect(to, key, request.header("content-type", "application/json"), body).await
    }

    /// Connects a client that repeats the cheapest request that needs a key.
    pub(crate) async fn of_models(to: SocketAddr, key: &str) -> Self {
        Self::connect(to, key, http::Request::get("/v1/models"), String::new()).await
    }

    async fn connect(
        to: SocketAddr,
        key: &str,
        request: http::request::Builder,
        body: String,
    ) -> Self {
        let stream = TcpStream::connect(to).await.expect("the gateway accepts");
        stream.set_nodelay(true).expect("it is a TCP socket");
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.expect("a new connection is usable");
        let mut connections = JoinSet::new();
        connections.spawn(async move { _ = connection.await });
        let request = request.header("host", to.to_string());
        let request = request.header("authorization", format!("Bearer {key}"));
        let request = request.body(Full::from(body)).expect("the request is well-formed");
        Self { sender, request, _connection: connections }
    }

    /// Sends the request, and returns the status of the complete answer.
    pub(crate) async fn ask(&mut self) -> StatusCode {
        self.sender.ready().await.expect("the connection stays open");
        let answer = self.sender.send_request(self.request.clone()).await.expect("an answer");
        let status = answer.status();
        answer.into_body().collect().await.expect("the answer is complete");
        status
    }
}

// === impl Load ===

impl Load {
    /// Connects clients that send chat requests with all of these keys.
    pub(crate) async fn connect(
        gateways: impl IntoIterator<Item = &Gateway>,
        keys: &[NewKey],
    ) -> Self {
        let mut clients = Vec::new();
        let mut keys = keys.iter().cycle();
        for gateway in gateways {
            for key in keys.by_ref().take(CONNECTIONS) {
                clients.push(Client::of_chat(gateway.http, &key.secret).await);
            }
        }
        Self(clients)
    }

    /// Sends `rate` requests per second for some seconds, all of which must succeed. Returns their number. Late ones
    /// are made up for.
    pub(crate) async fn send_paced(&mut self, rate: u32, seconds: u32) -> u32 {
        let clients = u32::try_from(self.0.len()).expect("there are few");
        let count = (rate * seconds).div_ceil(clients);
        let (period, start) = (Duration::from_secs(1) * clients / rate, Instant::now());
        let send = |number: usize, mut client: Client| async move {
            let phase = period * u32::try_from(number).expect("there are few") / clients;
            let mut ticks = interval_at(start + phase, period);
            for _ in 0..count {
                ticks.tick().await;
                assert!(client.ask().await.is_success());
            }
            (client, count)
        };
        self.send(send).await
    }

    /// Sends `count` requests as fast as possible, all of which must succeed. Returns their number, which
    /// is divisible by that of the clients.
    pub(crate) async fn send_all(&mut self, count: u32) -> u32 {
        let share = count.div_ceil(u32::try_from(self.0.len()).expect("there are few"));
        let send = |_, mut client: Client| async move {
            for _ in 0..share {
                assert!(client.ask().await.is_success());
            }
            (client, share)
        };
        self.send(send).await
    }

    /// Sends requests as fast as possible for some time. Returns how many succeed.
    pub(crate) async fn count_admitted(&mut self, time: Duration) -> u32 {
        let end = Instant::now() + time;
        let send = |_, mut client: Client| async move {
            let mut admitted = 0;
            while Instant::now() < end {
                admitted += u32::from(client.ask().await.is_success());
            }
            (client, admitted)
        };
        self.send(send).await
    }

    /// Runs all clients, and returns the sum of their counts.
    async fn send<F>(&mut self, send: impl Fn(usize, Client) -> F) -> u32
    where
        F: Future<Output = (Client, u32)> + Send + 'static,
    {
        let mut sending = JoinSet::new();
        for (number, client) in self.0.drain(..).enumerate() {
            sending.spawn(send(number, client));
        }
        let mut sum = 0;
        for (client, count) in sending.join_all().await {
            self.0.push(client);
            sum += count;
        }
        sum
    }
}
