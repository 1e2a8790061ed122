//! One of two deployments is killed, hangs or slows down under load, and what its clients notice.

use std::time::Duration;

use domain::money::Nanos;
use proto::v1;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::client::{Client, Shape};
use super::deployment::{Deployment, Fault, Transport};
use super::reconcile::{self, LedgerSnapshot, Reconciliation};
use super::rig::Rig;
use super::round::{Drill, Figure, Round};
use crate::product::priced_model;
use crate::session::requests_of;
use crate::{Certificate, TEST_TIMEOUT};

/// The model with two deployments.
const MODEL: &str = "deployed-twice";

/// A gateway in front of two deployments.
pub struct Failover {
    rig: Rig,
    settings: FailoverSettings,
    certificate: Certificate,
    rounds: usize,
}

/// The load, and how the deployments are reached.
#[derive(Clone, Copy, Debug)]
pub struct FailoverSettings {
    /// The number of concurrent clients, each of which sends one streamed request after the other.
    pub clients: usize,
    /// How long each fault lasts.
    pub phase: Duration,
    /// The deadline for a connection and for a first byte, in milliseconds: what a request waits that meets a hung
    /// deployment.
    pub deadline_ms: u64,
    /// How the gateway reaches the deployments.
    pub transport: Transport,
}

/// The phases of a round: what happens to the first deployment, the names of the figures of the clients, and the name of
/// the time until the deployment served a client again.
const PHASES: [(Fault, [&str; 3], Option<&str>); 4] = [
    (Fault::None, ["requests", "p50", "p99"], None),
    (
        Fault::Killed,
        ["requests, one killed", "p50, one killed", "p99, one killed"],
        Some("back after the kill"),
    ),
    (
        Fault::Hung,
        ["requests, one hung", "p50, one hung", "p99, one hung"],
        Some("back after hanging"),
    ),
    (
        Fault::Slow,
        ["requests, one slow", "p50, one slow", "p99, one slow"],
        Some("back after slowness"),
    ),
];

/// What the clients of a phase saw.
#[derive(Default)]
struct Observed {
    first_tokens: Vec<Duration>,
    failed: Vec<String>,
}

impl Failover {
    /// Starts the gateway. A round has a phase for each fault.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn prepare(settings: FailoverSettings) -> Self {
        let certificate = Certificate::create();
        Self { rig: Rig::start().await, settings, certificate, rounds: 0 }
    }

    /// Sends requests until `deployment` serves again, or for at most the time limit of a test. Returns their number, and
    /// whether it serves.
    async fn recover(client: &Client, deployment: &Deployment) -> (usize, bool) {
        let (before, begun) = (deployment.served(), Instant::now());
        let serves = || deployment.served() > before;
        let mut sent = 0;
        while !serves() && begun.elapsed() < TEST_TIMEOUT {
            _ = first_token(client).await;
            sent += 1;
            sleep(Duration::from_millis(5)).await;
        }
        (sent, serves())
    }

    /// Sends requests until the end of a phase.
    async fn load(&self, client: &Client) -> Observed {
        let until = Instant::now() + self.settings.phase;
        let mut clients = JoinSet::new();
        for _ in 0..self.settings.clients {
            let client = client.clone();
            clients.spawn(async move {
                let mut observed = Observed::default();
                while Instant::now() < until {
                    match first_token(&client).await {
                        Ok(time) => observed.first_tokens.push(time),
                        Err(what) => observed.failed.push(what),
                    }
                }
                observed
            });
        }
        clients.join_all().await.into_iter().fold(Observed::default(), |mut all, one| {
            all.first_tokens.extend(one.first_tokens);
            all.failed.extend(one.failed);
            all
        })
    }
}

impl Drill for Failover {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let mut customer = self.rig.customer(&format!("account-{}", self.rounds)).await;
        self.rig.fund(&mut customer, Nanos(1_000_000_000_000)).await;
        let operator = self.rig.operator().await;
        let start = || Deployment::start(self.settings.transport, &self.certificate);
        let mut deployments = [start().await, start().await];
        for (name, deployment) in ["first", "second"].into_iter().zip(&deployments) {
            let url = deployment.url();
            let trusted = deployment.has_tls().then(|| self.certificate.pem.clone());
            if self.rounds == 1 {
                let deadlines = v1::Deadlines {
                    connect_ms: Some(self.settings.deadline_ms),
                    first_byte_ms: Some(self.settings.deadline_ms),
                    ..Default::default()
                };
                let entry = v1::Upstream {
                    name: name.to_owned(),
                    url,
                    deadlines: Some(deadlines),
                    ca_certificates: trusted.unwrap_or_default(),
                    ..Default::default()
                };
                operator.add_upstream(entry).await;
            } else {
                let (name, url) = (name.to_owned(), Some(url));
                let change = v1::UpdateUpstreamRequest { name, url, ..Default::default() };
                operator.upstreams().update_upstream(change).await.unwrap();
            }
        }
        if self.rounds == 1 {
            let mut model = priced_model(MODEL, &[("first", "such"), ("second", "such")]);
            model.deployments.iter_mut().for_each(|deployment| deployment.priority = 0);
            model.set_routing(v1::Routing::LeastLoaded);
            operator.add_model(model).await;
        }
        let client = self.rig.client(&customer, MODEL);
        let (mut sent, mut differences, mut figures) = (0, Vec::new(), Vec::new());
        for (fault, names, recovered) in PHASES {
            deployments[0].set(fault).await;
            let observed = self.load(&client).await;
            sent += observed.first_tokens.len() + observed.failed.len();
            figures.push(Figure::Count(names[0], observed.first_tokens.len()));
            figures.push(Figure::Time(names[1], observed.percentile(50)));
            figures.push(Figure::Time(names[2], observed.percentile(99)));
            differences.extend(observed.failed.iter().map(|what| format!("{fault:?}: {what}")));
            deployments[0].set(Fault::None).await;
            let begun = Instant::now();
            let (requests, serves) = Self::recover(&client, &deployments[0]).await;
            sent += requests;
            if !serves {
                differences.push(format!("{fault:?}: it gets no requests again"));
            }
            figures.extend(recovered.map(|name| Figure::Time(name, begun.elapsed())));
        }
        reconcile::wait_for_records(&customer.session, sent).await;
        differences.extend(self.rig.wait_until_idle().await);
        let books = LedgerSnapshot::read(&customer.session, &operator).await;
        let recorded = requests_of(books.records.values());
        if recorded != sent {
            differences.push(format!("{sent} requests have {recorded} records"));
        }
        differences.extend(books.proof);
        let upstream = deployments.iter().map(Deployment::served).sum();
        let verdict =
            Reconciliation { upstream, recorded, differences, ..Reconciliation::default() };
        Round { verdict, figures }
    }
}

/// Sends a streamed request, and returns when its first bytes arrived if it ends as it should.
async fn first_token(client: &Client) -> Result<Duration, String> {
    let begun = Instant::now();
    let request = client.request(Shape::ChatStream, "hi", Some(16));
    let mut answer = request.try_send().await.map_err(|error| error.to_string())?;
    let mut received = Vec::new();
    let mut first = None;
    while let Some(piece) = answer.piece().await.map_err(|error| error.to_string())? {
        first.get_or_insert_with(|| begun.elapsed());
        received.extend_from_slice(&piece);
    }
    let is_whole = answer.status == 200 && received.ends_with(b"data: [DONE]\n\n");
    let text = || format!("{} {}", answer.status, String::from_utf8_lossy(&received));
    first.filter(|_| is_whole).ok_or_else(text)
}

impl Observed {
    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.first_tokens.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * percent / 100).copied().unwrap_or_default()
    }
}
