//! Clients that want to take the gateway down, all kinds of them at once, and honest ones beside them.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use domain::money::Nanos;
use proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::client::{Client, Shape};
use super::descriptors::{self, Descriptors};
use super::reconcile::Verdict;
use super::rig::{Customer, MODEL, Rig};
use super::round::{Drill, Figure, Round};
use crate::PATIENCE;
use crate::http::Request;

/// A kind of attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Sends bodies without end, a byte to a chunk
    Crumbs,
    /// Connects and says nothing, or next to nothing
    Silent,
    /// Asks with a key that was revoked
    Revoked,
    /// Reads one long answer after the other
    Endless,
    /// Asks for long answers, and reads none
    Deaf,
}

/// How hard the gateway is attacked.
#[derive(Clone, Debug)]
pub struct Attack {
    /// For how long.
    pub duration: Duration,
    /// By whom.
    pub kinds: Vec<Kind>,
    /// How many clients of each kind there are; ten times as many that say nothing.
    pub clients: usize,
    /// How much longer an honest request may take than without the attack, in percent of that; `None` where
    /// times are not judged.
    pub max_slowdown: Option<usize>,
}

/// A gateway that is attacked.
pub struct Hostile {
    rig: Rig,
    attack: Attack,
    rounds: usize,
    baseline: Option<Descriptors>,
}

/// Who asks in a round.
struct Parties {
    honest: Client,
    hostile: Client,
    /// Of a key with one place.
    narrow: String,
    revoked: String,
}

/// What was measured of honest requests.
#[derive(Default)]
struct Latencies {
    served: Vec<Duration>,
    failed: usize,
}

/// The most memory that the gateway's process may take, in MiB.
const MAX_RESIDENT_MIB: usize = 200;
/// More than a round can use up.
const PLENTY: Nanos = Nanos(1_000_000_000_000);
/// How long an honest client waits between two requests.
const HONEST_PAUSE: Duration = Duration::from_millis(20);
/// An attacker sends so many chunks or requests, then waits: the drill's own work must not be what is measured.
const CHUNKS_AT_ONCE: usize = 256;
const REQUESTS_AT_ONCE: usize = 8;
const ATTACK_PAUSE: Duration = Duration::from_millis(20);
/// An answer that goes on for long; the attacker asks for another one then.
const ENDLESS: &str = "[sim words=5000 pace_ms=2]";
/// An answer that fills what buffers there are on its way.
const LONG: &str = "[sim words=30000 chunk=1000]";

impl Hostile {
    /// Starts the gateway.
    ///
    /// # Panics
    /// It does not answer.
    pub async fn prepare(attack: Attack) -> Self {
        let mut drill = Self { rig: Rig::start().await, attack, rounds: 0, baseline: None };
        // what is made once and kept is made before the first count
        let customer = drill.rig.customer("first").await;
        let client = drill.rig.client(&customer, MODEL);
        for shape in Shape::QUICK {
            client.ask(shape, "hello", None).await.expect("an answer");
        }
        _ = drill.rig.judge(&customer, Vec::new()).await;
        drill.baseline = drill.descriptors();
        drill
    }

    fn descriptors(&self) -> Option<Descriptors> {
        let port = self.rig.simulator().url.rsplit_once(':')?.1.strip_suffix("/v1")?;
        let gateway = self.rig.gateway();
        descriptors::of(gateway.id(), gateway.http.port(), port.parse().ok()?)
    }

    async fn parties(&self) -> Parties {
        let name = |who| format!("{who}-{}", self.rounds);
        let mut honest = self.rig.customer(&name("honest")).await;
        self.rig.fund(&mut honest, PLENTY).await;
        let mut hostile = self.rig.customer(&name("hostile")).await;
        self.rig.fund(&mut hostile, PLENTY).await;
        let one = v1::Limits { concurrency: Some(1), ..Default::default() };
        let narrow = hostile.session.key_with(|key| key.limits = Some(one)).await.secret;
        Parties {
            honest: self.rig.client(&honest, MODEL),
            hostile: self.rig.client(&hostile, MODEL),
            narrow,
            revoked: revoked_key(&hostile).await,
        }
    }

    /// Starts all attackers.
    fn attackers(&self, parties: &Parties) -> JoinSet<()> {
        let gateway = self.rig.gateway();
        let admin = gateway.admin.strip_prefix("http://").and_then(|it| it.parse().ok());
        let mut attackers = JoinSet::new();
        let at_once =
            |kind| if self.attack.kinds.contains(&kind) { self.attack.clients } else { 0 };
        for number in 0..at_once(Kind::Crumbs) {
            let key = if number % 2 == 0 { &parties.hostile.key } else { &parties.narrow };
            attackers.spawn(send_crumbs(gateway.http, key.clone()));
        }
        for _ in 0..at_once(Kind::Revoked) {
            attackers.spawn(flood(gateway.http, parties.revoked.clone()));
        }
        for number in 0..at_once(Kind::Endless) {
            let client = parties.hostile.clone();
            attackers.spawn(async move { read_endlessly(&client, number).await });
        }
        for number in 0..at_once(Kind::Deaf) {
            let client = parties.hostile.clone();
            attackers.spawn(async move { read_nothing(&client, number).await });
        }
        for number in 0..at_once(Kind::Silent) * 10 {
            attackers.spawn(stay_silent(gateway.http, SILENT[number % SILENT.len()]));
            if let Some(admin) = admin.filter(|_| number % 5 == 0) {
                attackers.spawn(stay_silent(admin, SILENT[number % SILENT.len()]));
            }
        }
        attackers
    }

    /// Waits until no more is open than at first, and returns what is if that does not come.
    async fn closed(&self) -> Option<String> {
        let baseline = self.baseline?;
        let is_closed = || {
            self.descriptors().is_some_and(|now| now.clients == 0 && now.other <= baseline.other)
        };
        let closing = async {
            while !is_closed() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let is_late = tokio::time::timeout(PATIENCE, closing).await.is_err();
        is_late.then(|| format!("{:?} are open, {baseline:?} at first", self.descriptors()))
    }
}

impl Drill for Hostile {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let parties = self.parties().await;
        let process = self.rig.gateway().id();
        let quiet = ask_for(&parties.honest, self.attack.duration / 4, || {}).await;
        let mut most_resident = 0;
        let mut attackers = self.attackers(&parties);
        let attacked = ask_for(&parties.honest, self.attack.duration, || {
            most_resident = most_resident.max(resident_mib(process).unwrap_or_default());
        });
        let attacked = attacked.await;
        // the operator gets in while it lasts
        self.rig.operator().await;
        attackers.shutdown().await;

        let mut differences: Vec<_> = self.closed().await.into_iter().collect();
        differences.extend(self.rig.rest().await);
        let failed = quiet.failed + attacked.failed;
        if failed > 0 || attacked.served.is_empty() {
            let served = attacked.served.len();
            differences.push(format!("{failed} honest requests failed, {served} were served"));
        }
        if most_resident > MAX_RESIDENT_MIB {
            differences.push(format!("it took {most_resident} MiB, more than {MAX_RESIDENT_MIB}"));
        }
        let (undisturbed, disturbed) = (quiet.median(), attacked.median());
        let ratio = disturbed.as_micros() * 100 / undisturbed.as_micros().max(1);
        let ratio = usize::try_from(ratio).unwrap_or(usize::MAX);
        if self.attack.max_slowdown.is_some_and(|limit| ratio > limit) {
            differences.push(format!("honest requests took {ratio} % of their time"));
        }
        let operator = self.rig.operator().await;
        let proof = operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap();
        differences.extend(proof.into_inner().differences.into_iter().map(|it| it.text));
        let seen = quiet.served.len() + attacked.served.len();
        let upstream = self.rig.asked();
        let figures = vec![
            Figure::Count("MiB resident at most", most_resident),
            Figure::Time("honest median undisturbed", undisturbed),
            Figure::Time("honest median attacked", disturbed),
            Figure::Count("percent of the undisturbed median", ratio),
        ];
        Round { verdict: Verdict { upstream, seen, differences, ..Verdict::default() }, figures }
    }
}

impl Latencies {
    fn median(&self) -> Duration {
        let mut sorted = self.served.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

/// What attackers send who say no more.
const SILENT: [&str; 4] = ["", "P", "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];

/// Asks plain questions for this long, and calls `watch` after each.
async fn ask_for(client: &Client, duration: Duration, mut watch: impl FnMut()) -> Latencies {
    let (began, mut latencies) = (Instant::now(), Latencies::default());
    while began.elapsed() < duration {
        let asked = Instant::now();
        match client.ask(Shape::Chat, "an honest question", None).await {
            Some(seen) if seen.status == 200 => latencies.served.push(asked.elapsed()),
            _ => latencies.failed += 1,
        }
        watch();
        sleep(HONEST_PAUSE).await;
    }
    latencies
}

/// Makes a key and revokes it.
async fn revoked_key(customer: &Customer) -> String {
    let key = customer.session.key().await;
    customer.session.keys().revoke_key(v1::RevokeKeyRequest { id: key.id }).await.unwrap();
    key.secret
}

/// Sends bodies that have no end, a byte to a chunk, one after the other.
async fn send_crumbs(to: SocketAddr, key: String) {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    let chunks = "1\r\na\r\n".repeat(CHUNKS_AT_ONCE);
    loop {
        if let Ok(mut stream) = TcpStream::connect(to).await {
            _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(chunks.as_bytes()).await.is_ok() {
                sleep(ATTACK_PAUSE).await;
            }
        }
        sleep(ATTACK_PAUSE).await;
    }
}

/// Asks with a key that is refused, many requests at a time.
async fn flood(to: SocketAddr, key: String) {
    let request = Request::post(to, "/v1/chat/completions").bearer(&key).body("{}").bytes();
    let burst = request.repeat(REQUESTS_AT_ONCE);
    let mut answers = vec![0; 64 * 1024];
    loop {
        if let Ok(mut stream) = TcpStream::connect(to).await {
            while stream.write_all(&burst).await.is_ok() {
                sleep(ATTACK_PAUSE).await;
                if !matches!(stream.read(&mut answers).await, Ok(1..)) {
                    break;
                }
            }
        }
        sleep(ATTACK_PAUSE).await;
    }
}

/// Reads one long answer after the other, so that there is always one.
async fn read_endlessly(client: &Client, number: usize) {
    loop {
        let shape = Shape::QUICK[1 + 2 * (number % 2)];
        let text = format!("attacker {number} {ENDLESS}");
        if let Ok(mut exchange) = client.request(shape, &text, None).try_send().await {
            while let Ok(Some(_)) = exchange.piece().await {}
        }
        sleep(ATTACK_PAUSE).await;
    }
}

/// Asks for long answers, and reads none.
async fn read_nothing(client: &Client, number: usize) {
    loop {
        let text = format!("attacker {number} {LONG}");
        let request = client.request(Shape::ChatStream, &text, None);
        let request = request.socket(|socket| socket.set_recv_buffer_size(4 * 1024));
        if let Ok(mut stream) = request.connect().await {
            _ = stream.write_all(&request.bytes()).await;
            // until the gateway has enough of it: an answer that is not read hides the end
            sleep(PATIENCE).await;
        }
    }
}

/// Connects and says as much, again and again.
async fn stay_silent(to: SocketAddr, bytes: &'static str) {
    let mut buffer = [0; 64];
    loop {
        if let Ok(mut stream) = TcpStream::connect(to).await {
            _ = stream.write_all(bytes.as_bytes()).await;
            while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
        }
        sleep(ATTACK_PAUSE).await;
    }
}

/// Memory that a process takes, in MiB; `None` where the system does not tell.
fn resident_mib(process: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}
