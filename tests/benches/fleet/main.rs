//! What several gateways cost their PostgreSQL database, and how fast they agree: the figures of `ARCHITECTURE.md`, "How
//! far several gateways scale".
//!
//! `cargo bench -p tests --bench fleet -- SECONDS REVOCATIONS LIMIT RATE…` runs three gateways of one worker each on one
//! server of PostgreSQL (`fsync` off), in front of one simulator, all on this host. Printed are:
//!
//! - the statements without requests, and the statements and the CPU time of the server per request, at each RATE of
//!   requests per second for SECONDS; the start and the end of a transaction count as statements;
//! - the time from the answer to a revocation until both other gateways refuse the key, of REVOCATIONS keys;
//! - the part of a LIMIT of requests per minute that one gateway admits within two seconds, after all have used it;
//! - the CPU time of a gateway per plain request, on PostgreSQL and on SQLite: medians over interleaved rounds.
//!
//! It needs the programs of PostgreSQL with its extension `pg_stat_statements`, as Debian installs them. Build the
//! binaries in the same profile before (`cargo build --release -p gateway`), or name another gateway in
//! `TOLLGATE_TEST_GATEWAY`. `cargo bench -p gateway --bench commit_postgres` measures the records per second of a core.

mod agreement;
mod costs;
mod load;
mod server;

use tests::drill::rig;
use tests::process::{Gateway, Simulator};
use tests::{GatewayFleet, NewKey, Session, password_of, priced_model, wait_for_model};
use tokio::process::Command;

use crate::server::MeasuredServer;

const NAMES: [&str; 3] = ["one", "two", "three"];
/// The accounts that send requests, each with one key.
const ACCOUNTS: usize = 50;
/// The model that they ask.
const MODEL: &str = "measured";

/// The arguments, with their defaults.
struct Arguments {
    seconds: u32,
    revocations: usize,
    limit: u32,
    rates: Vec<u32>,
}

#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u32>().ok());
    let mut arguments = Arguments {
        seconds: numbers.next().unwrap_or(10),
        revocations: numbers.next().unwrap_or(100) as usize,
        limit: numbers.next().unwrap_or(6_000),
        rates: numbers.collect(),
    };
    if arguments.rates.is_empty() {
        arguments.rates = vec![300, 3_000, 9_000];
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let Some(server) = Box::pin(MeasuredServer::start()).await else {
            println!("skipped, because the programs of PostgreSQL are not installed");
            return;
        };
        let simulator = Simulator::start("/dev/null".as_ref()).await;
        Box::pin(measure(&arguments, server, &simulator)).await;
    });
}

async fn measure(arguments: &Arguments, mut server: MeasuredServer, simulator: &Simulator) {
    let database = server.database("fleet").await;
    let fleet = GatewayFleet::on(database, 60);
    let mut gateways = Vec::new();
    for name in NAMES {
        gateways.push(fleet.start_with(name, configure).await);
    }
    let operator = fleet.operator(NAMES[0], &gateways[0]).await;
    let keys = prepare(&gateways[0], &operator, &simulator.url).await;
    for key in &keys {
        wait_for_model(&gateways, &key.secret, MODEL).await;
    }
    costs::idle(arguments, &server, &fleet.database).await;
    costs::of_requests(arguments, &server, &fleet.database, (&gateways, &keys)).await;
    agreement::revocations(arguments, &operator, &gateways).await;
    agreement::hot_gateway(arguments, &operator, &gateways).await;
    for others in gateways.drain(1..) {
        others.stop().await;
    }
    costs::beside_sqlite(arguments, &gateways[0], &keys, simulator).await;
    for gateway in gateways {
        gateway.stop().await;
    }
}

fn configure(command: &mut Command) {
    command.args(["--workers", "1", "--log", "warn,gateway::app=info"]);
    command.args(["--registrations-per-hour", "0", "--trial-daily-usd", "1000000"]);
}

/// Adds the model, and the accounts with their keys.
async fn prepare(gateway: &Gateway, operator: &Session, upstream: &str) -> Vec<NewKey> {
    let (name, url) = (MODEL.to_owned(), upstream.to_owned());
    operator.add_upstream(proto::v1::Upstream { name, url, ..Default::default() }).await;
    operator.add_model(priced_model(MODEL, &[(MODEL, "sim-chat")])).await;
    operator.limit_plan(proto::v1::Limits::default()).await;
    let mut keys = Vec::new();
    for number in 0..ACCOUNTS {
        let name = format!("account-{number}");
        let account = Session::register(&gateway.admin, &name, &password_of(&name)).await;
        operator.credit(&name, "10000").await;
        keys.push(account.key().await);
    }
    keys
}

/// Starts a gateway on SQLite with the same model and as many accounts.
async fn on_sqlite(data: &std::path::Path, simulator: &Simulator) -> (Gateway, Vec<NewKey>) {
    let gateway = Gateway::start(data, configure).await;
    let operator = rig::operator(&gateway, data).await;
    let keys = prepare(&gateway, &operator, &simulator.url).await;
    (gateway, keys)
}
