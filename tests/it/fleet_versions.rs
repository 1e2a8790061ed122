//! Gateways of two versions on one PostgreSQL database, behind a TCP balancer, while the older ones are replaced one
//! after the other under load. `TOLLGATE_TEST_OLDER_GATEWAY` is the path of an older gateway; without it, or without
//! a server in `TOLLGATE_TEST_POSTGRES`, the test says that it is skipped, and passes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::v1;
use serde_json::json;
use tests::http::{PendingAnswer, Request};
use tests::process::{self, Gateway};
use tests::{
    Call, GatewayFleet, RawUpstream, Session, chunk, question, wait_for_model, with_timeout,
};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PATIENCE_SECONDS: u64 = 60;
const CLIENTS: u64 = 4;
/// The answers under load before and after each step.
const ANSWERS: u64 = 40;
const EVENTS: [&str; 3] = [
    r#"data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#,
    r#"data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    "data: [DONE]",
];

/// A TCP proxy that gives connections to its backends in turn.
struct Balancer {
    address: SocketAddr,
    backends: watch::Sender<Vec<SocketAddr>>,
    /// The backends of the open connections.
    open: watch::Sender<Vec<SocketAddr>>,
    _task: JoinSet<()>,
}

impl Balancer {
    async fn start(backends: &[&Gateway]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, backends) = watch::channel(addresses(backends));
        let (mut task, open) = (JoinSet::new(), watch::Sender::new(Vec::new()));
        let opened = open.clone();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            for turn in 0_usize.. {
                let (mut client, _) = listener.accept().await.unwrap();
                let backends = backends.borrow().clone();
                let backend = backends[turn % backends.len()];
                let open = opened.clone();
                open.send_modify(|open| open.push(backend));
                connections.spawn(async move {
                    let mut server = TcpStream::connect(backend).await.unwrap();
                    _ = copy_bidirectional(&mut client, &mut server).await;
                    open.send_modify(|open| {
                        let ended = open.iter().position(|at| *at == backend);
                        _ = ended.map(|ended| open.swap_remove(ended));
                    });
                });
            }
        });
        Self { address, backends: sender, open, _task: task }
    }

    fn set(&self, backends: &[&Gateway]) {
        self.backends.send_replace(addresses(backends));
    }

    /// Waits until no connection is open to a backend that gets no more. A connection that has not sent its request
    /// yet when its gateway stops is closed, which only a balancer that knows HTTP can repeat.
    async fn idle(&self, backend: SocketAddr) {
        let mut open = self.open.subscribe();
        let is_idle = open.wait_for(|open| !open.contains(&backend));
        with_timeout("the last connection", is_idle).await.unwrap();
    }
}

fn addresses(gateways: &[&Gateway]) -> Vec<SocketAddr> {
    gateways.iter().map(|gateway| gateway.http).collect()
}

fn ask(to: SocketAddr, key: &str, model: &str, stream: bool) -> Request {
    let mut body = question(model, "hi");
    body["stream"] = json!(stream);
    Request::post(to, "/v1/chat/completions").bearer(key).json(&body)
}

/// Asks until `stop`, plain and streamed in turn. Each answer must be complete.
async fn load(to: SocketAddr, key: String, answers: Arc<AtomicU64>, stop: CancellationToken) {
    let mut is_stream = false;
    while !stop.is_cancelled() {
        let answer = ask(to, &key, "sim-chat", is_stream).answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let end = if is_stream { "data: [DONE]\n\n" } else { "}" };
        assert!(answer.text().trim_end_matches('\n').ends_with(end.trim_end()), "{answer:?}");
        answers.fetch_add(1, Ordering::Relaxed);
        is_stream = !is_stream;
    }
}

/// Waits until the load has got more answers.
async fn more(answers: &AtomicU64) {
    let target = answers.load(Ordering::Relaxed) + ANSWERS;
    let growing = async {
        while answers.load(Ordering::Relaxed) < target {
            tokio::task::yield_now().await;
        }
    };
    with_timeout("answers under load", growing).await;
}

/// Begins a stream at `gateway`, which has not ended.
async fn begin_stream(
    upstream: &RawUpstream,
    gateway: &Gateway,
    key: &str,
) -> (PendingAnswer, Call) {
    tokio::join!(ask(gateway.http, key, "held", true).send(), upstream.begin_stream())
}

/// Drains a gateway as an operator does before a restart, and stops it while it has a stream, which must be complete.
async fn retire(
    (name, gateway): (&str, Gateway),
    other: &Session,
    balancer: &Balancer,
    others: &[&Gateway],
    (stream, mut call): (PendingAnswer, Call),
) {
    let request = v1::DrainNodeRequest { name: name.to_owned(), draining: true };
    other.nodes().drain_node(request).await.unwrap();
    let is_ready = async || Request::get(gateway.http, "/readyz").answer().await.status == 200;
    with_timeout("the drain", async { while is_ready().await {} }).await;
    balancer.set(others);
    balancer.idle(gateway.http).await;
    let ending = async {
        for event in EVENTS {
            call.send(chunk(&format!("{event}\n\n"))).await;
        }
        call.send(chunk("")).await;
        stream.events().await
    };
    let (_, events) = tokio::join!(gateway.stop(), ending);
    assert_eq!(events.last().map(String::as_str), Some("data: [DONE]"), "{events:?}");
}

#[tokio::test]
async fn older_gateways_are_replaced_under_load_without_a_lost_request_or_a_cut_stream() {
    let Some(older) = process::older_gateway() else { return };
    let Some(fleet) = GatewayFleet::create("fleet_versions", PATIENCE_SECONDS).await else {
        return;
    };
    let one = fleet.start_program("one", &older).await;
    let two = fleet.start_program("two", &older).await;
    let upstream = RawUpstream::start().await;
    let at_one = fleet.operator("one", &one).await;
    at_one.add_model_on("held", &[&upstream.url]).await;
    let key = at_one.key().await.secret;
    wait_for_model([&one, &two], &key, "held").await;
    let database = &fleet.database;
    let version = "SELECT version FROM schema_version";
    let former = database.number(version).await;

    let balancer = Balancer::start(&[&one, &two]).await;
    let (answers, stop) = (Arc::<AtomicU64>::default(), CancellationToken::new());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(load(balancer.address, key.clone(), answers.clone(), stop.clone()));
    }
    more(&answers).await;
    let at_two = fleet.operator("two", &two).await;
    let stream = begin_stream(&upstream, &one, &key).await;
    retire(("one", one), &at_two, &balancer, &[&two], stream).await;

    // It migrates the database while the older one serves.
    let one = fleet.start("one").await;
    wait_for_model([&one], &key, "held").await;
    balancer.set(&[&one, &two]);
    more(&answers).await;
    let now = database.number(version).await;
    eprintln!("schema {former} is now {now}; the older gateway serves on");
    let at_one = fleet.operator("one", &one).await;
    // Each gateway follows the changes of the other version.
    let second = at_two.key().await.secret;
    wait_for_model([&one, &two], &second, "held").await;
    let third = at_one.key().await.secret;
    wait_for_model([&one, &two], &third, "held").await;

    let stream = begin_stream(&upstream, &two, &second).await;
    retire(("two", two), &at_one, &balancer, &[&one], stream).await;
    more(&answers).await;
    // An older one may be started again while the database supports its version.
    let two = fleet.start_program("two", &older).await;
    wait_for_model([&two], &third, "held").await;
    balancer.set(&[&one, &two]);
    more(&answers).await;
    let stream = begin_stream(&upstream, &two, &third).await;
    retire(("two", two), &at_one, &balancer, &[&one], stream).await;
    let two = fleet.start("two").await;
    wait_for_model([&two], &key, "held").await;
    balancer.set(&[&one, &two]);
    more(&answers).await;

    stop.cancel();
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let proof = at_one.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap();
    let proof = proof.into_inner();
    for gateway in [one, two] {
        gateway.stop().await;
    }
    assert!(proof.differences.is_empty(), "{proof:?}");
    let recorded = "SELECT count(*) FROM requests WHERE status = 1 AND model = ";
    let count = i64::try_from(answers.load(Ordering::Relaxed)).unwrap();
    assert_eq!(database.number(&format!("{recorded}'sim-chat'")).await, count);
    assert_eq!(database.number(&format!("{recorded}'held'")).await, 3);
    eprintln!("{count} requests and 3 held streams were complete and are recorded once");
    fleet.remove().await;
}
