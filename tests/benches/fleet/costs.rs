//! What requests cost the database, and a gateway on it.

use std::time::Duration;

use tests::process::{Gateway, Simulator};
use tests::{NewKey, PostgresDatabase};
use tokio::time::{Instant, sleep};

use crate::load::Load;
use crate::server::{MeasuredServer, cpu_time};
use crate::{Arguments, NAMES, on_sqlite};

/// The rounds of a comparison, after one that warms up.
const ROUNDS: usize = 7;
/// The requests per second in the comparison with SQLite.
const COMPARED_RATE: u32 = 2_000;

/// Measures the statements without requests.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
pub(crate) async fn idle(
    arguments: &Arguments,
    server: &MeasuredServer,
    database: &PostgresDatabase,
) {
    // Until what the setup has changed is written.
    sleep(Duration::from_secs(3)).await;
    let before = server.counters(database, None).await;
    sleep(Duration::from_secs(arguments.seconds.into())).await;
    let after = server.counters(database, None).await;
    let gateways = u32::try_from(NAMES.len()).expect("there are few");
    let per_second = number(after.statements - before.statements) / f64::from(arguments.seconds);
    println!(
        "no requests: {:.1} statements per second and gateway",
        per_second / f64::from(gateways)
    );
}

/// Measures the statements and the CPU time of the server per request.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
pub(crate) async fn of_requests(
    arguments: &Arguments,
    server: &MeasuredServer,
    database: &PostgresDatabase,
    (gateways, keys): (&[Gateway], &[NewKey]),
) {
    let mut load = Load::connect(gateways, keys).await;
    // Each account moves a part of its balance to each gateway.
    load.send_paced(300, 1).await;
    for &rate in &arguments.rates {
        sleep(Duration::from_secs(2)).await;
        let first = server.records(database).await;
        let (before, start) = (server.counters(database, None).await, Instant::now());
        let count = load.send_paced(rate, arguments.seconds).await;
        let achieved = f64::from(count) / start.elapsed().as_secs_f64();
        let after = server.counters(database, Some(first + i64::from(count))).await;
        let micros = after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6;
        println!(
            "{rate} requests per second ({achieved:.0} reached): {:.3} statements and {:.1} µs of CPU time per request",
            number(after.statements - before.statements) / f64::from(count),
            micros / f64::from(count)
        );
    }
}

/// Compares the CPU time of the gateway, which is alone on its database, with that of one on SQLite.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
pub(crate) async fn beside_sqlite(
    arguments: &Arguments,
    on_postgres: &Gateway,
    keys: &[NewKey],
    simulator: &Simulator,
) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let (sqlite, sqlite_keys) = on_sqlite(dir.path(), simulator).await;
    let gateways = [on_postgres, &sqlite];
    let mut loads =
        [Load::connect([on_postgres], keys).await, Load::connect([&sqlite], &sqlite_keys).await];
    for is_saturated in [true, false] {
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            let mut costs = [0.0; 2];
            // Which one is first alternates, so that a drift of the machine does not favour one.
            for side in [round % 2, (round + 1) % 2] {
                let begun = cpu_time(gateways[side].id());
                let count = if is_saturated {
                    loads[side].send_all(COMPARED_RATE * arguments.seconds).await
                } else {
                    loads[side].send_paced(COMPARED_RATE, arguments.seconds).await
                };
                // The last batch of records.
                sleep(Duration::from_millis(1_500)).await;
                let used = cpu_time(gateways[side].id()).saturating_sub(begun);
                costs[side] = used.as_secs_f64() * 1e6 / f64::from(count);
            }
            rounds.push(costs);
        }
        rounds.remove(0);
        let of_side = |side: usize| median(rounds.iter().map(|costs| costs[side]).collect());
        println!(
            "gateway {}: {:.1} µs of CPU time per request on PostgreSQL, {:.1} µs on SQLite, ratio {:.3}",
            if is_saturated { "saturated" } else { "at 2,000 requests per second" },
            of_side(0),
            of_side(1),
            median(rounds.iter().map(|[postgres, sqlite]| postgres / sqlite).collect())
        );
    }
    sqlite.stop().await;
}

fn number(count: i64) -> f64 {
    f64::from(u32::try_from(count).expect("a run has fewer"))
}

/// Returns the median of these numbers; zero if there are none.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}
