//! One of two deployments is killed, hangs or slows down under load, and what its clients notice.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::money::Nanos;
use proto::v1;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::client::{Client, Shape};
use super::reconcile::{self, LedgerSnapshot, Reconciliation};
use super::rig::Rig;
use super::round::{Drill, Figure, Round};
use super::upstream::{read_request, whole_answer};
use crate::TEST_TIMEOUT;
use crate::product::priced_model;
use crate::session::requests_of;

/// The model with two deployments.
const MODEL: &str = "deployed-twice";
/// How long a slow deployment takes to answer.
const SLOW: Duration = Duration::from_millis(200);

/// A gateway in front of two deployments.
pub struct Failover {
    rig: Rig,
    clients: usize,
    phase: Duration,
    /// The deadline for a connection and for a first byte, in milliseconds: what a request waits that meets a hung
    /// deployment.
    deadline_ms: u64,
    rounds: usize,
}

/// What happens to the first deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Its connections are reset and its port is closed.
    Killed,
    /// It accepts connections and requests, and answers none.
    Hung,
    /// It answers each request after [`SLOW`].
    Slow,
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

/// A server that can be made to fail.
struct Deployment {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    /// The number of chat requests that it has answered.
    served: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

/// What the clients of a phase saw.
#[derive(Default)]
struct Observed {
    first_tokens: Vec<Duration>,
    failed: Vec<String>,
}

impl Failover {
    /// Starts the gateway. A round has a phase of this length for each fault, in which so many clients send one streamed
    /// request after the other. A deployment that does not answer for `deadline_ms` milliseconds has failed.
    pub async fn prepare(clients: usize, phase: Duration, deadline_ms: u64) -> Self {
        Self { rig: Rig::start().await, clients, phase, deadline_ms, rounds: 0 }
    }

    /// Sends requests until `deployment` serves again, and returns their number; `None` if it does not in time.
    async fn recover(&self, client: &Client, deployment: &Deployment) -> Option<usize> {
        let served = || deployment.served.load(Ordering::Relaxed);
        let before = served();
        let again = async {
            let mut sent = 0;
            while served() == before {
                _ = first_token(client).await;
                sent += 1;
                sleep(Duration::from_millis(5)).await;
            }
            sent
        };
        tokio::time::timeout(TEST_TIMEOUT, again).await.ok()
    }

    /// Sends requests until the end of a phase.
    async fn load(&self, client: &Client) -> Observed {
        let until = Instant::now() + self.phase;
        let mut clients = JoinSet::new();
        for _ in 0..self.clients {
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
        let mut deployments = [Deployment::start().await, Deployment::start().await];
        for (name, deployment) in ["first", "second"].into_iter().zip(&deployments) {
            let url = format!("http://{}/v1", deployment.address);
            if self.rounds == 1 {
                let deadlines = v1::Deadlines {
                    connect_ms: Some(self.deadline_ms),
                    first_byte_ms: Some(self.deadline_ms),
                    ..Default::default()
                };
                let (name, deadlines) = (name.to_owned(), Some(deadlines));
                operator
                    .add_upstream(v1::Upstream { name, url, deadlines, ..Default::default() })
                    .await;
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
            match self.recover(&client, &deployments[0]).await {
                Some(requests) => sent += requests,
                None => differences.push(format!("{fault:?}: it gets no requests again")),
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
        let upstream = deployments.iter().map(|it| it.served.load(Ordering::Relaxed)).sum();
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

impl Deployment {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, faults) = watch::channel(Fault::None);
        let (served, mut tasks) = (Arc::<AtomicUsize>::default(), JoinSet::new());
        tasks.spawn(serve(listener, faults, served.clone()));
        Self { address, fault, served, tasks }
    }

    /// Makes the server fail, or work again.
    async fn set(&mut self, fault: Fault) {
        let before = self.fault.send_replace(fault);
        if fault == Fault::Killed {
            self.tasks.shutdown().await;
        } else if before == Fault::Killed {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(self.address).unwrap();
            let (listener, faults) = (socket.listen(1_024).unwrap(), self.fault.subscribe());
            self.tasks.spawn(serve(listener, faults, self.served.clone()));
        }
    }
}

async fn serve(listener: TcpListener, faults: watch::Receiver<Fault>, served: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        let (faults, served) = (faults.clone(), served.clone());
        connections
            .spawn(async move { while answer(&mut stream, &faults, &served).await.is_ok() {} });
        while connections.try_join_next().is_some() {}
    }
}

/// Answers the next request of a connection. An error closes the connection.
async fn answer(
    stream: &mut TcpStream,
    faults: &watch::Receiver<Fault>,
    served: &AtomicUsize,
) -> io::Result<()> {
    let request = read_request(stream).await?;
    let fault = *faults.borrow();
    match fault {
        Fault::None => {}
        Fault::Slow => sleep(SLOW).await,
        // It stays hung for this request, even when the server works again.
        Fault::Hung | Fault::Killed => std::future::pending().await,
    }
    if request.starts_with(b"POST ") {
        served.fetch_add(1, Ordering::Relaxed);
    }
    stream.write_all(whole_answer(&request).as_bytes()).await
}
