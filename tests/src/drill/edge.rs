//! Clients that break the protocol at the level of bytes, one kind after the other, beside an honest client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::money::Nanos;
use proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::client::{Client, Shape};
use super::descriptors::{self, Descriptors};
use super::honest::{ask_for, ask_while};
use super::reconcile::Reconciliation;
use super::rig::{MODEL, Rig};
use super::round::{Drill, Figure, Round};
use crate::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GET_ROOT, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, opening,
};

/// More than a round can spend.
const PLENTY: Nanos = Nanos(1_000_000_000_000);
/// What a connection sends at most, in bytes.
const MAX_SENT: usize = 4 * 1024 * 1024;
/// The number of repetitions that are written at once.
const AT_ONCE: usize = 256;
/// An answer that fills all buffers between simulator and client.
const LONG: &str = "[sim words=30000 chunk=1000]";

/// A gateway among hostile clients.
pub struct HostileClients {
    rig: Rig,
    settings: EdgeSettings,
    rounds: usize,
    baseline: Option<Descriptors>,
}

/// The strength of the attack.
#[derive(Clone, Copy, Debug)]
pub struct EdgeSettings {
    /// The connections of each kind.
    pub connections: usize,
    /// How many of them are open at a time.
    pub concurrent: usize,
    /// How long a connection that the gateway does not close stays open.
    pub hold: Duration,
    /// The pause after each burst, and between the bytes of slow connections. Without one, the CPU use of the drill itself
    /// is measured.
    pub pause: Duration,
}

/// What the connections of one kind do.
#[derive(Clone, Debug)]
struct Kind {
    name: &'static str,
    /// What is sent first.
    first: Vec<u8>,
    /// What is sent after it, again and again.
    repeated: Vec<u8>,
    /// Whether it is sent at once, or one byte at a time.
    is_slow: bool,
    end: End,
    /// Whether a complete request is among what is sent.
    is_request: bool,
}

/// What a connection does in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It reads until the gateway closes it, or for the hold time.
    Read,
    /// It closes its sending side, then reads.
    HalfClose,
    /// It resets the connection at once.
    Reset,
    /// It reads nothing for the hold time.
    Ignore,
}

impl HostileClients {
    /// Starts the gateway.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn prepare(settings: EdgeSettings) -> Self {
        let mut drill = Self { rig: Rig::start().await, settings, rounds: 0, baseline: None };
        // Resources that are allocated once and kept are allocated before the first count.
        let customer = drill.rig.customer("first").await;
        let client = drill.rig.client(&customer, MODEL);
        for shape in Shape::QUICK {
            client.send_request(shape, "hello", None).await.expect("an answer");
        }
        _ = drill.rig.reconcile_round(&customer, Vec::new()).await;
        drill.baseline = descriptors::of_gateway(&drill.rig);
        drill
    }

    /// Returns a client with a new account. Its connection to the admin plane is closed, so that it is not counted.
    async fn client(&self, role: &str) -> Client {
        let mut customer = self.rig.customer(&format!("{role}-{}", self.rounds)).await;
        self.rig.fund(&mut customer, PLENTY).await;
        self.rig.client(&customer, MODEL)
    }

    /// Has all connections of `kind` attack while `honest` asks, and returns what went wrong and the measurements.
    async fn attack(&self, kind: &Kind, honest: &Client, quiet: Duration) -> (Vec<String>, Figure) {
        let gateway = self.rig.gateway();
        let (to, process) = (gateway.http, gateway.id());
        let (running, false_successes) = (Arc::new(()), Arc::<AtomicUsize>::default());
        let mut attackers = JoinSet::new();
        let EdgeSettings { connections, concurrent, hold, pause } = self.settings;
        for number in 0..concurrent {
            let (kind, running) = (kind.clone(), running.clone());
            let false_successes = false_successes.clone();
            let count = connections / concurrent + usize::from(number < connections % concurrent);
            attackers.spawn(async move {
                for _ in 0..count {
                    let answer = kind.connect(to, hold, pause).await;
                    let is_success = answer.starts_with(b"HTTP/1.1 200");
                    if is_success && !kind.is_request {
                        false_successes.fetch_add(1, Ordering::Relaxed);
                    }
                }
                drop(running);
            });
        }
        let before = descriptors::resident_mib(process).unwrap_or_default();
        let mut most_resident = before;
        let is_running = || Arc::strong_count(&running) > 1;
        let watch = || {
            most_resident =
                most_resident.max(descriptors::resident_mib(process).unwrap_or_default());
        };
        let latencies = ask_while(honest, is_running, watch).await;
        attackers.join_all().await;
        let mut differences = Vec::new();
        if latencies.failed > 0 {
            differences.push(format!("{}: {} honest requests failed", kind.name, latencies.failed));
        }
        let wrong = false_successes.load(Ordering::Relaxed);
        if wrong > 0 {
            differences.push(format!("{}: {wrong} false successes", kind.name));
        }
        let open = descriptors::wait_until_closed(&self.rig, self.baseline).await;
        differences.extend(open.map(|open| format!("{}: {open}", kind.name)));
        let percent = latencies.median().as_micros() * 100 / quiet.as_micros().max(1);
        let after = descriptors::resident_mib(process).unwrap_or_default();
        let percent = usize::try_from(percent).unwrap_or(usize::MAX);
        let figure =
            Figure::Attack { kind: kind.name, percent, resident: [before, most_resident, after] };
        (differences, figure)
    }
}

impl Drill for HostileClients {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let (honest, hostile) = (self.client("honest").await, self.client("hostile").await);
        let quiet = ask_for(&honest, self.settings.hold * 4, || {}).await;
        let (mut differences, mut figures) = (Vec::new(), Vec::new());
        figures.push(Figure::Time("honest median undisturbed", quiet.median()));
        for kind in kinds(&hostile) {
            let (wrong, figure) = self.attack(&kind, &honest, quiet.median()).await;
            differences.extend(wrong);
            figures.push(figure);
        }
        differences.extend(self.rig.wait_until_idle().await);
        let operator = self.rig.operator().await;
        let proof = operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap();
        differences.extend(proof.into_inner().differences.into_iter().map(|it| it.text));
        let (upstream, seen) = (self.rig.upstream_requests(), quiet.served.len());
        let verdict = Reconciliation { upstream, seen, differences, ..Reconciliation::default() };
        Round { verdict, figures }
    }
}

impl Kind {
    fn new(name: &'static str, first: impl Into<Vec<u8>>) -> Self {
        let (repeated, end) = (Vec::new(), End::Read);
        Self { name, first: first.into(), repeated, is_slow: false, end, is_request: false }
    }

    fn request(self) -> Self {
        Self { is_request: true, ..self }
    }

    fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    fn repeating(self, bytes: impl Into<Vec<u8>>) -> Self {
        Self { repeated: bytes.into(), ..self }
    }

    fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// Runs one connection, and returns the beginning of what it received.
    async fn connect(&self, to: SocketAddr, hold: Duration, pause: Duration) -> Vec<u8> {
        let mut answer = Vec::new();
        let socket = TcpSocket::new_v4().unwrap();
        if self.end == End::Reset {
            socket.set_zero_linger().unwrap();
        }
        if self.end == End::Ignore {
            socket.set_recv_buffer_size(4 * 1024).unwrap();
        }
        let Ok(mut stream) = socket.connect(to).await else { return answer };
        let until = Instant::now() + hold;
        let (mut receiving, mut sending) = stream.split();
        let send = async {
            let pieces = if self.is_slow { 1 } else { self.first.len().max(1) };
            for piece in self.first.chunks(pieces) {
                sending.write_all(piece).await?;
                if self.is_slow {
                    sleep(pause).await;
                }
            }
            let burst = self.repeated.repeat(if self.is_slow { 1 } else { AT_ONCE });
            let mut sent = 0;
            while !burst.is_empty() && sent < MAX_SENT && Instant::now() < until {
                sending.write_all(&burst).await?;
                sent += burst.len();
                sleep(pause).await;
            }
            if self.end == End::HalfClose {
                sending.shutdown().await?;
            }
            std::io::Result::Ok(())
        };
        let receive = async {
            if self.end == End::Ignore {
                sleep(hold).await;
            }
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = receiving.read(&mut buffer).await {
                answer.extend_from_slice(&buffer[..read]);
                answer.truncate(64);
            }
        };
        let both = async {
            let reading = async {
                if self.end != End::Reset {
                    receive.await;
                }
            };
            // A connection that the gateway closed cannot be written.
            _ = tokio::join!(send, reading);
        };
        _ = timeout(hold, both).await;
        answer
    }
}

/// Returns all kinds of hostile connections. Those that send whole requests use the key of `client`.
fn kinds(client: &Client) -> Vec<Kind> {
    let head = |fields: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\n{fields}",
            client.key
        )
    };
    let whole = |shape, text: &str| client.request(shape, text, None).bytes();
    let h2 = |frames: &[Vec<u8>]| [opening(), frames.concat()].concat();
    let get = |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, GET_ROOT);
    let resets = (0..1_000).flat_map(|index| {
        let stream = 2 * index + 1;
        [get(stream), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    // SETTINGS_INITIAL_WINDOW_SIZE
    let closed_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let chat_stream = whole(Shape::ChatStream, LONG);
    vec![
        Kind::new("silent", ""),
        Kind::new("half-head", "GET /v1/models HTTP/1.1\r\nhost: a\r\n"),
        Kind::new("slow-head", head("")).repeating("x: y\r\n").slow(),
        Kind::new("endless-head", head("")).repeating("x: y\r\n"),
        Kind::new("many-headers", head(&"x: y\r\n".repeat(200)) + "\r\n"),
        Kind::new("long-header", head("x: ")).repeating("y"),
        Kind::new("long-target", "GET /").repeating("y"),
        Kind::new("no-body", head("content-length: 100\r\n\r\n")),
        Kind::new("slow-body", head("content-length: 10000000\r\n\r\n")).repeating("a").slow(),
        Kind::new("crumbs", head("transfer-encoding: chunked\r\n\r\n")).repeating("1\r\na\r\n"),
        Kind::new("endless-chunk", head("transfer-encoding: chunked\r\n\r\nfffffff\r\n"))
            .repeating("aaaaaaaaaaaaaaaa"),
        Kind::new("garbage", [0x80, 0xff, 0, b'\r', b'\n', 7].repeat(50)),
        Kind::new("garbage-flood", "").repeating([0x80, 0xff, 0, 7]),
        Kind::new("tls-on-plain", [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3].repeat(9)),
        Kind::new("reset-head", head("")).ending(End::Reset),
        Kind::new("reset-body", head("content-length: 100\r\n\r\n{")).ending(End::Reset),
        Kind::new("reset-answer", chat_stream.clone()).ending(End::Reset).request(),
        Kind::new("half-close", chat_stream.clone()).ending(End::HalfClose).request(),
        Kind::new("unread-answer", chat_stream).ending(End::Ignore).request(),
        Kind::new("pipelined", whole(Shape::Chat, "hi").repeat(20)).ending(End::Ignore).request(),
        Kind::new("h2-silent", opening()),
        Kind::new("h2-settings-flood", opening()).repeating(frame(SETTINGS, 0, 0, &[])),
        Kind::new("h2-unread-settings", opening())
            .repeating(frame(SETTINGS, 0, 0, &[]))
            .ending(End::Ignore),
        Kind::new("h2-ping-flood", opening()).repeating(frame(PING, 0, 0, &[0; 8])),
        Kind::new("h2-unread-pings", opening())
            .repeating(frame(PING, 0, 0, &[0; 8]))
            .ending(End::Ignore),
        Kind::new("h2-rapid-reset", h2(&[resets.collect()])),
        Kind::new("h2-continuations", h2(&[frame(HEADERS, END_STREAM, 1, GET_ROOT)]))
            .repeating(frame(CONTINUATION, 0, 1, &[])),
        Kind::new("h2-window-updates", opening()).repeating(frame(
            WINDOW_UPDATE,
            0,
            0,
            &1_u32.to_be_bytes(),
        )),
        Kind::new("h2-empty-data", h2(&[frame(HEADERS, END_HEADERS, 1, GET_ROOT)]))
            .repeating(frame(DATA, 0, 1, &[])),
        Kind::new("h2-closed-window", h2(&[closed_window, get(1), get(3), get(5)])).request(),
        Kind::new("h2-large-frame", h2(&[vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1]]))
            .repeating("a"),
        Kind::new("h2-stream-zero", h2(&[frame(HEADERS, END_STREAM | END_HEADERS, 0, GET_ROOT)])),
    ]
}
