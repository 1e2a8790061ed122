//! All kinds of attacking clients at once, beside honest clients.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use domain::money::Nanos;
use proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::{Client, Shape};
use super::descriptors::{self, Descriptors};
use super::honest::ask_for;
use super::reconcile::Reconciliation;
use super::rig::{Customer, MODEL, Rig};
use super::round::{Drill, Figure, Round};
use crate::TEST_TIMEOUT;
use crate::http::Request;

/// A kind of attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttackKind {
    /// Sends endless bodies in chunks of one byte
    Crumbs,
    /// Connects and sends nothing, or next to nothing
    Silent,
    /// Sends requests with a revoked key
    Revoked,
    /// Reads one long answer after another
    Endless,
    /// Requests long answers and reads none
    Deaf,
}

/// The strength of the attack.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The duration.
    pub duration: Duration,
    /// The kinds of attackers.
    pub kinds: Vec<AttackKind>,
    /// The number of clients of each kind; ten times as many for silent connections.
    pub clients: usize,
    /// The highest permitted duration of an honest request, in percent of its duration without the
    /// attack; `None` if times are not checked.
    pub max_slowdown: Option<usize>,
}

/// A gateway under attack.
pub struct Hostile {
    rig: Rig,
    attack: Attack,
    rounds: usize,
    baseline: Option<Descriptors>,
}

/// The clients of a round.
struct Parties {
    honest: Client,
    hostile: Client,
    /// A key with a concurrency limit of one.
    narrow: String,
    revoked: String,
}

/// The limit for the resident memory of the gateway's process, in MiB.
const MAX_RESIDENT_MIB: usize = 200;
/// More than a round can spend.
const PLENTY: Nanos = Nanos(1_000_000_000_000);
/// An attacker pauses after this number of chunks or requests, so that the CPU use of the drill
/// itself is not what is measured.
const CHUNKS_AT_ONCE: usize = 256;
const REQUESTS_AT_ONCE: usize = 8;
const ATTACK_PAUSE: Duration = Duration::from_millis(20);
/// A long, slow answer; the attacker requests another one afterwards.
const ENDLESS: &str = "[sim words=5000 pace_ms=2]";
/// An answer that fills all buffers between simulator and client.
const LONG: &str = "[sim words=30000 chunk=1000]";

impl Hostile {
    /// Starts the gateway.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn prepare(attack: Attack) -> Self {
        let mut drill = Self { rig: Rig::start().await, attack, rounds: 0, baseline: None };
        // resources that are allocated once and kept are allocated before the first count
        let customer = drill.rig.customer("first").await;
        let client = drill.rig.client(&customer, MODEL);
        for shape in Shape::QUICK {
            client.send_request(shape, "hello", None).await.expect("an answer");
        }
        _ = drill.rig.reconcile_round(&customer, Vec::new()).await;
        drill.baseline = descriptors::of_gateway(&drill.rig);
        drill
    }

    async fn parties(&self) -> Parties {
        let name = |role| format!("{role}-{}", self.rounds);
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
        let attackers_of =
            |kind| if self.attack.kinds.contains(&kind) { self.attack.clients } else { 0 };
        for number in 0..attackers_of(AttackKind::Crumbs) {
            let key = if number % 2 == 0 { &parties.hostile.key } else { &parties.narrow };
            attackers.spawn(send_crumbs(gateway.http, key.clone()));
        }
        for _ in 0..attackers_of(AttackKind::Revoked) {
            attackers.spawn(flood(gateway.http, parties.revoked.clone()));
        }
        for number in 0..attackers_of(AttackKind::Endless) {
            let client = parties.hostile.clone();
            attackers.spawn(async move { read_endlessly(&client, number).await });
        }
        for number in 0..attackers_of(AttackKind::Deaf) {
            let client = parties.hostile.clone();
            attackers.spawn(async move { read_nothing(&client, number).await });
        }
        for number in 0..attackers_of(AttackKind::Silent) * 10 {
            attackers.spawn(stay_silent(gateway.http, SILENT[number % SILENT.len()]));
            if let Some(admin) = admin.filter(|_| number % 5 == 0) {
                attackers.spawn(stay_silent(admin, SILENT[number % SILENT.len()]));
            }
        }
        attackers
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
            most_resident =
                most_resident.max(descriptors::resident_mib(process).unwrap_or_default());
        });
        let attacked = attacked.await;
        // the operator can connect during the attack
        self.rig.operator().await;
        attackers.shutdown().await;

        let open = descriptors::wait_until_closed(&self.rig, self.baseline).await;
        let mut differences: Vec<_> = open.into_iter().collect();
        differences.extend(self.rig.wait_until_idle().await);
        let failed = quiet.failed + attacked.failed;
        if failed > 0 || attacked.served.is_empty() {
            let served = attacked.served.len();
            differences.push(format!("{failed} honest requests failed, {served} were served"));
        }
        if most_resident > MAX_RESIDENT_MIB {
            differences.push(format!("{most_resident} MiB resident, more than {MAX_RESIDENT_MIB}"));
        }
        let (undisturbed, disturbed) = (quiet.median(), attacked.median());
        let ratio = disturbed.as_micros() * 100 / undisturbed.as_micros().max(1);
        let ratio = usize::try_from(ratio).unwrap_or(usize::MAX);
        if self.attack.max_slowdown.is_some_and(|limit| ratio > limit) {
            differences.push(format!("honest requests took {ratio} % of their undisturbed time"));
        }
        let operator = self.rig.operator().await;
        let proof = operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap();
        differences.extend(proof.into_inner().differences.into_iter().map(|it| it.text));
        let seen = quiet.served.len() + attacked.served.len();
        let upstream = self.rig.upstream_requests();
        let figures = vec![
            Figure::Count("MiB resident at most", most_resident),
            Figure::Time("honest median undisturbed", undisturbed),
            Figure::Time("honest median attacked", disturbed),
            Figure::Count("percent of the undisturbed median", ratio),
        ];
        Round {
            verdict: Reconciliation { upstream, seen, differences, ..Reconciliation::default() },
            figures,
        }
    }
}

/// The bytes that silent attackers send.
const SILENT: [&str; 4] = ["", "P", "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];

/// Creates a key and revokes it.
async fn revoked_key(customer: &Customer) -> String {
    let key = customer.session.key().await;
    customer.session.keys().revoke_key(v1::RevokeKeyRequest { id: key.id }).await.unwrap();
    key.secret
}

/// Sends endless bodies in chunks of one byte, one body after another.
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

/// Sends bursts of requests with a refused key.
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

/// Reads one long answer after another.
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

/// Requests long answers and reads none.
async fn read_nothing(client: &Client, number: usize) {
    loop {
        let text = format!("attacker {number} {LONG}");
        let request = client.request(Shape::ChatStream, &text, None);
        let request = request.socket(|socket| socket.set_recv_buffer_size(4 * 1024));
        if let Ok(mut stream) = request.connect().await {
            _ = stream.write_all(&request.bytes()).await;
            // until the gateway closes it; a client that does not read cannot see the end
            sleep(TEST_TIMEOUT).await;
        }
    }
}

/// Connects and sends only `bytes`, again and again.
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
