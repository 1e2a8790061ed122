//! Measures what a request record with its charge costs PostgreSQL, by batch size.
//!
//! `TOLLGATE_BENCH_POSTGRES=postgres://USER@HOST/DATABASE TOLLGATE_BENCH_SERVER=PID cargo bench -p gateway --bench
//! commit_postgres`, with an empty database on this host and the process id of its server (the first line of
//! `postmaster.pid`), which no one else uses meanwhile. Prints the CPU time of all processes of the server, per record.

mod records;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use domain::node::{NodeId, NodeName};
use records::batch;
use store::Requests;
use store::fleet::JoiningNode;
use store::postgres::{PostgresAddress, PostgresStore};
use uuid::Uuid;

const RECORDS: usize = 100_000;

#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
#[expect(clippy::disallowed_methods, reason = "its settings are not those of the gateway")]
fn main() -> anyhow::Result<()> {
    let Ok(url) = std::env::var("TOLLGATE_BENCH_POSTGRES") else {
        println!("skipped, because TOLLGATE_BENCH_POSTGRES is not set");
        return Ok(());
    };
    let server = std::env::var("TOLLGATE_BENCH_SERVER").context("TOLLGATE_BENCH_SERVER")?;
    let server: u32 = server.parse().context("TOLLGATE_BENCH_SERVER")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = JoiningNode {
        id: NodeId(Uuid::from_u128(1)),
        name: NodeName::new("bench"),
        version: "0.0.0",
        address: String::new(),
        patience: Duration::from_mins(1),
    };
    let store = runtime.block_on(PostgresStore::open(&PostgresAddress::parse(&url)?, &node))?;
    println!("batch  cpu µs/record of the server");
    let mut first = 0;
    for size in [512, 10, 100, 512, 512] {
        let count = if size == 10 { RECORDS / 10 } else { RECORDS } / size * size;
        let before = server_time(server)?;
        for start in (first..first + count).step_by(size) {
            runtime.block_on(store.commit(Arc::new(batch(start, size))))?;
        }
        first += count;
        let spent = server_time(server)?.saturating_sub(before);
        let count = u32::try_from(count)?;
        println!("{size:5}  {:10.2}", spent.as_secs_f64() * 1e6 / f64::from(count));
    }
    Ok(())
}

/// Returns the CPU time of a server and its live processes, from Linux's `schedstat`.
fn server_time(server: u32) -> anyhow::Result<Duration> {
    let mut nanos = 0;
    let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"))?;
    for process in children.split_whitespace().chain([server.to_string().as_str()]) {
        // It may have ended.
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/schedstat")) else { continue };
        nanos += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}
