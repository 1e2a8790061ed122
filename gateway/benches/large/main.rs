//! Measures query latency and commit throughput of a store with millions of records.
//!
//! `cargo bench -p gateway --bench large -- 10` fills a store with ten million records from `log.rs` (one million
//! by default; ten million take 2.7 GB). It measures commits while filling, then the reads that users and the start
//! of a gateway wait for: the first run, with cold caches of the store, and the mean of the next ten. With
//! `-- 10 upkeep`, it also verifies, copies and deletes records, which needs twice the disk space.
//!
//! Results on a virtual machine with two busy cores, for ten million records of 601 keys in 2.7 GB: 15 µs of CPU
//! time per record in an empty store, 20 to 24 µs from a million records on. In milliseconds, with warm caches:
//!
//! | | |
//! | --- | --- |
//! | totals overall, by model, day and key: everything, 30 days, a day | 134, 79, 26 |
//! | the same totals of one account: everything, 30 days | 10, 7 |
//! | the same totals of one model over all accounts: everything, 30 days | 35, 23 |
//! | last page: all, one account, one key, a rare status | 0.2, 0.2, 0.3, 0.3 |
//! | last page: a rare model | 80 |
//! | last page: a cost that no record has, which reads the whole log | 1,182 |
//! | the usage from which limits resume at start | 51 |

mod log;
#[path = "../processor/mod.rs"]
mod processor;
mod upkeep;

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::expression::{Comparison, Predicate, Term};
use domain::id::KeyId;
use domain::money::Nanos;
use domain::record::RequestStatus;
use jiff::{SignedDuration, Timestamp};
use store::sqlite::SqliteStore;
use store::{ConsumptionTotals, Cursor, RequestFilter, Requests, StoreError, TimeUnit};
use tokio::runtime::Runtime;

use crate::log::Log;
use crate::processor::cpu_time;

/// The start of the log, 2027-01-15, in seconds since the Unix epoch.
const START_SECOND: i64 = 1_800_000_000;
/// Records per commit, like the recorder's under load.
const BATCH: u64 = 1_000;
/// Records that are committed with timing at each size of the store.
const TIMED: u64 = 100_000;

#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
#[expect(clippy::disallowed_methods, reason = "measures time and reads its arguments")]
fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let millions = arguments.iter().find_map(|it| it.parse::<u64>().ok()).unwrap_or(1);
    let start = Timestamp::from_second(START_SECOND)?;
    let log = Log { records: millions * 1_000_000, start };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.db");
    let store = SqliteStore::open(&path)?;

    runtime.block_on(log::register(&store))?;
    println!("records   cpu µs/record  wall µs/record");
    let mut filled = 0;
    for size in [0, log.records / 10, log.records / 2, log.records] {
        let timed = size.saturating_sub(TIMED).max(filled)..size.max(TIMED);
        if timed.is_empty() {
            continue;
        }
        fill(&runtime, &store, &log, filled..timed.start)?;
        filled = timed.end;
        let Cost { cpu, wall } = fill(&runtime, &store, &log, timed)?;
        println!("{size:8}  {cpu:13.2}  {wall:14.2}");
    }
    runtime.block_on(store.close());
    drop(store);
    println!("{} bytes per record", std::fs::metadata(&path)?.len() / filled);

    let start = Instant::now();
    let store = SqliteStore::open(&path)?;
    println!("open: {:.1} ms", millis(start.elapsed()));
    report_reads(&runtime, &store, &log)?;
    if arguments.iter().any(|argument| argument == "upkeep") {
        upkeep::report(&runtime, &store, &log)?;
    }
    Ok(())
}

/// Measures the reads that users and the start of a gateway wait for.
fn report_reads(runtime: &Runtime, store: &SqliteStore, log: &Log) -> anyhow::Result<()> {
    let ago = |hours| log.end().checked_sub(SignedDuration::from_hours(hours)).ok();
    let all = RequestFilter::default();
    let month = RequestFilter { since: ago(30 * 24), ..all.clone() };
    let day = RequestFilter { since: ago(24), ..all.clone() };
    let busy = Some(log::account(7));
    let quiet = Some(log::account(log::QUIET_ACCOUNT));
    let of = |account, filter: &RequestFilter| RequestFilter { account, ..filter.clone() };
    let model = |number| Some(log::model(number));

    let totals = [
        ("all", all.clone()),
        ("30 days", month.clone()),
        ("a day", day),
        ("a model", RequestFilter { model: model(0), ..all.clone() }),
        ("a model, 30 days", RequestFilter { model: model(0), ..month.clone() }),
        ("one account", of(busy, &all)),
        ("one account, 30 days", of(busy, &month)),
        ("a quiet account", of(quiet, &all)),
    ];
    for (name, filter) in totals {
        let name = format!("totals (overall, by model, day and key) of {name}");
        report(runtime, &name, || store.summarize(&filter, TimeUnit::Day))?;
    }

    let no_match =
        Term { predicate: Predicate::Cost(Comparison::Above, Nanos(i64::MAX / 2)), negated: false };
    let pages = [
        ("all", all.clone()),
        ("one account", of(busy, &all)),
        ("a quiet account", of(quiet, &all)),
        ("a quiet account, 30 days", of(quiet, &month)),
        ("one key", RequestFilter { key: Some(log::key(7, 0)), ..all.clone() }),
        ("an unknown key", RequestFilter { key: Some(KeyId::new("none")), ..all.clone() }),
        ("a rare model", RequestFilter { model: model(log::RARE_MODEL), ..all.clone() }),
        ("a status that no record has", status(RequestStatus::Interrupted)),
        ("a rare status", status(RequestStatus::Failed)),
        ("a rare error", error("upstream_timeout")),
        ("a cost that no record has", RequestFilter { terms: vec![no_match], ..all.clone() }),
    ];
    for (name, filter) in pages {
        let name = format!("last page of {name}");
        report(runtime, &name, || store.requests_before(&filter, None, 50))?;
    }
    let middle = Some(Cursor((log.records / 2).cast_signed()));
    report(runtime, "a page in the middle", || store.requests_before(&all, middle, 50))?;
    report(runtime, "usage from which limits resume at start", || store.consumption(log.month()))?;
    Ok(())
}

fn status(status: RequestStatus) -> RequestFilter {
    RequestFilter { status: Some(status), ..RequestFilter::default() }
}

fn error(code: &str) -> RequestFilter {
    let term = Term { predicate: Predicate::Error(vec![code.to_owned()]), negated: false };
    RequestFilter { terms: vec![term], ..RequestFilter::default() }
}

/// The time per record, in microseconds.
struct Cost {
    /// The CPU time of the process (Linux's `schedstat`), so that a busy machine does not distort it.
    cpu: f64,
    /// The wall-clock time.
    wall: f64,
}

/// Commits the records with these numbers, and returns their cost.
#[expect(clippy::disallowed_methods, reason = "measures time")]
fn fill(
    runtime: &Runtime,
    store: &SqliteStore,
    log: &Log,
    numbers: std::ops::Range<u64>,
) -> anyhow::Result<Cost> {
    let count = f64::from(u32::try_from(numbers.end - numbers.start)?);
    let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
    for first in numbers.step_by(usize::try_from(BATCH)?) {
        let batch = Arc::new(log.batch(first..first + BATCH));
        let (cpu_start, start) = (cpu_time()?, Instant::now());
        runtime.block_on(store.commit(batch))?;
        wall += start.elapsed();
        cpu += cpu_time()?.saturating_sub(cpu_start);
    }
    Ok(Cost { cpu: cpu.as_secs_f64() * 1e6 / count, wall: wall.as_secs_f64() * 1e6 / count })
}

/// Runs `read` eleven times, and prints the time of the first run and the mean of the others.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
#[expect(clippy::disallowed_methods, reason = "measures time")]
fn report<T, F: Future<Output = Result<T, StoreError>>>(
    runtime: &Runtime,
    name: &str,
    read: impl Fn() -> F,
) -> anyhow::Result<()> {
    let start = Instant::now();
    runtime.block_on(read())?;
    let first = start.elapsed();
    let start = Instant::now();
    for _ in 0..10 {
        runtime.block_on(read())?;
    }
    let next = start.elapsed() / 10;
    println!("{name:62} {:8.2} ms first, {:8.2} ms then", millis(first), millis(next));
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
