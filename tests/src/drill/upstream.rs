//! Upstreams that break the protocol at the level of bytes, and what clients receive meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::money::Nanos;
use proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::Shape;
use super::reconcile::{self, LedgerSnapshot, Reconciliation};
use super::rig::Rig;
use super::round::{Drill, Figure, Round};
use crate::product::priced_model;
use crate::session::requests_of;

/// The kinds of hostile upstreams, and whether each of them sends complete answers.
const KINDS: [(&str, bool); 13] = [
    ("stall-accept", false),
    ("stall-tls", false),
    ("stall-head", false),
    ("stall-event", false),
    ("cut", false),
    ("garbage", false),
    ("html", false),
    ("endless-head", false),
    ("reset", false),
    ("redirect", false),
    ("informational-flood", false),
    ("crumbs", true),
    ("trailing-garbage", true),
];
const PLAIN: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
const FIRST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
/// A stream that begins with [`FIRST`].
const STREAM: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
/// The deadlines of the upstreams; the one for a whole answer is four times as long.
const DEADLINE_MS: u64 = 500;

/// A gateway in front of hostile upstreams.
pub struct HostileUpstreams {
    rig: Rig,
    requests: usize,
    clients: usize,
    max_wait: Option<Duration>,
    rounds: usize,
}

impl HostileUpstreams {
    /// Starts the gateway. A round has at least this many requests, of so many concurrent clients, each of which
    /// may take up to `max_wait`.
    pub async fn prepare(requests: usize, clients: usize, max_wait: Option<Duration>) -> Self {
        Self { rig: Rig::start().await, requests, clients, max_wait, rounds: 0 }
    }
}

impl Drill for HostileUpstreams {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let mut customer = self.rig.customer(&format!("account-{}", self.rounds)).await;
        self.rig.fund(&mut customer, Nanos(1_000_000_000_000)).await;
        let operator = self.rig.operator().await;
        let (mut peers, mut differences, mut figures) = (JoinSet::new(), Vec::new(), Vec::new());
        let (mut sent, received) = (0, Arc::<AtomicUsize>::default());
        for (kind, is_whole) in KINDS {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let scheme = if kind == "stall-tls" { "https" } else { "http" };
            let url = format!("{scheme}://{}/v1", listener.local_addr().unwrap());
            peers.spawn(serve(listener, kind, received.clone()));
            let ms = Some(DEADLINE_MS);
            let deadlines = v1::Deadlines {
                connect_ms: ms,
                first_byte_ms: ms,
                idle_ms: ms,
                total_ms: Some(4 * DEADLINE_MS),
            };
            if self.rounds == 1 {
                let (name, deadlines) = (kind.to_owned(), Some(deadlines));
                operator
                    .add_upstream(v1::Upstream { name, url, deadlines, ..Default::default() })
                    .await;
                operator.add_model(priced_model(kind, &[(kind, "such")])).await;
            } else {
                let (name, url) = (kind.to_owned(), Some(url));
                let change = v1::UpdateUpstreamRequest { name, url, ..Default::default() };
                operator.upstreams().update_upstream(change).await.unwrap();
            }
            let client = self.rig.client(&customer, kind);
            let mut clients = JoinSet::new();
            for number in 0..self.clients {
                let count = self.requests.div_ceil(KINDS.len() * self.clients);
                let client = client.clone();
                sent += count;
                clients.spawn(async move {
                    let (mut wrong, mut slowest) = (Vec::new(), Duration::ZERO);
                    for request in 0..count {
                        let shape = Shape::COUNTED[(number + request) % Shape::COUNTED.len()];
                        let begun = Instant::now();
                        let seen = client.send_request(shape, "hi", Some(16)).await;
                        slowest = slowest.max(begun.elapsed());
                        if seen.as_ref().is_some_and(|it| it.status == 200) != is_whole {
                            wrong.push(format!("{kind}: {shape:?} received {seen:?}"));
                        }
                    }
                    (wrong, slowest)
                });
            }
            let results = clients.join_all().await;
            let slowest = results.iter().map(|(_, time)| *time).max().unwrap_or_default();
            figures.push(Figure::Time(kind, slowest));
            if self.max_wait.is_some_and(|max_wait| slowest > max_wait) {
                differences.push(format!("{kind}: a request took {slowest:?}"));
            }
            differences.extend(results.into_iter().flat_map(|(wrong, _)| wrong));
        }
        peers.shutdown().await;
        reconcile::wait_for_records(&customer.session, sent).await;
        differences.extend(self.rig.wait_until_idle().await);
        let books = LedgerSnapshot::read(&customer.session, &operator).await;
        let recorded = requests_of(books.records.values());
        let charges: Nanos = books.records.values().filter_map(reconcile::cost).sum();
        if recorded != sent {
            differences.push(format!("{sent} requests have {recorded} records"));
        }
        if books.balance != customer.credit + -charges {
            let (credit, balance) = (customer.credit, books.balance);
            differences.push(format!("{credit} less {charges} is not the balance {balance}"));
        }
        differences.extend(books.proof);
        let upstream = received.load(Ordering::Relaxed);
        let verdict =
            Reconciliation { upstream, recorded, differences, ..Reconciliation::default() };
        Round { verdict, figures }
    }
}

/// Treats each connection as `kind` says, and counts the requests that were read whole.
async fn serve(listener: TcpListener, kind: &'static str, received: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        let received = received.clone();
        connections
            .spawn(async move { while mistreat(&mut stream, kind, &received).await.is_ok() {} });
        while connections.try_join_next().is_some() {}
    }
}

/// Reads a request whose body is a JSON object, or a GET.
pub(super) async fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
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
pub(super) fn whole_answer(request: &[u8]) -> String {
    if is_stream(request) {
        head("text/event-stream", STREAM.len()) + STREAM
    } else {
        head("application/json", PLAIN.len()) + PLAIN
    }
}

fn is_stream(request: &[u8]) -> bool {
    String::from_utf8_lossy(request).contains("\"stream\":true")
}

fn head(mime: &str, length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {mime}\r\ncontent-length: {length}\r\n\r\n")
}

/// Answers the next request of a connection. An error closes the connection.
async fn mistreat(stream: &mut TcpStream, kind: &str, received: &AtomicUsize) -> io::Result<()> {
    let close = || Err(io::ErrorKind::ConnectionAborted.into());
    match kind {
        "stall-accept" | "stall-tls" => std::future::pending().await,
        // Closing a socket with unread bytes resets the connection.
        "reset" => {
            stream.readable().await?;
            return close();
        }
        _ => {}
    }
    let request = read_request(stream).await?;
    received.fetch_add(1, Ordering::Relaxed);
    let (is_stream, whole) = (is_stream(&request), whole_answer(&request));
    let beginning = |part: &str| whole.find(part).map_or("", |start| &whole[..start + part.len()]);
    match kind {
        "stall-head" => stream.write_all(b"HTTP/1.1 200 OK\r\n").await?,
        "stall-event" => {
            let part = if is_stream { FIRST } else { &PLAIN[..20] };
            stream.write_all(beginning(part).as_bytes()).await?;
        }
        "cut" => {
            let end = whole.find("[DONE]").unwrap_or(whole.len());
            let cut = usize::try_from(super::draw(end as u64)).unwrap_or_default();
            stream.write_all(&whole.as_bytes()[..cut]).await?;
            return close();
        }
        "garbage" => {
            stream.write_all(&[0x16, 0xff, 0, b'\n'].repeat(64)).await?;
            return close();
        }
        "html" => {
            let page = "<html>it works</html>";
            return stream.write_all((head("text/html", page.len()) + page).as_bytes()).await;
        }
        "redirect" => {
            let moved = b"HTTP/1.1 302 Found\r\nlocation: /v2\r\ncontent-length: 0\r\n\r\n";
            return stream.write_all(moved).await;
        }
        "endless-head" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                stream.write_all(b"x-more: of the same\r\n").await?;
            }
        }
        "informational-flood" => loop {
            stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await?;
        },
        "crumbs" => {
            for byte in whole.as_bytes() {
                stream.write_all(&[*byte]).await?;
            }
            return Ok(());
        }
        _ => stream.write_all((whole + "\0garbage").as_bytes()).await?,
    }
    std::future::pending().await
}
