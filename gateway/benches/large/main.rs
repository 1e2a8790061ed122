//! What a store of many millions of records answers in, and whether it takes more as fast.
//!
//! `cargo bench -p gateway --bench large -- 10` fills a store with ten million records (one million by
//! default; ten take 2.7 GB) as `log.rs` has them, and times commits on the way, then the reads that people
//! and a start wait for: each on its first run, with the store's caches cold, and on the next ten. With
//! `-- 10 upkeep` it proves, copies and forgets them, too, which takes twice the disk.
//!
//! On a virtual machine with two busy cores, ten million records of 601 keys in 2.7 GB: 15 µs of
//! processor time per record in an empty store, 20 to 24 from a million on. In milliseconds, with warm caches:
//!
//! | | |
//! | --- | --- |
//! | sums in all, by model, day and key: everything, 30 days, a day | 134, 79, 26 |
//! | the same of one account: everything, 30 days | 10, 7 |
//! | the same of one model over all accounts: everything, 30 days | 35, 23 |
//! | last page: all, one account, one key, a rare status | 0.2, 0.2, 0.3, 0.3 |
//! | last page: a rare model | 80 |
//! | last page: a cost that nothing has, which reads the whole log | 1,182 |
//! | what limits go on from at a start | 51 |

mod log;
#[path = "../processor/mod.rs"]
mod processor;
mod upkeep;

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::expression::{Relation, Term, Test};
use domain::id::KeyId;
use domain::money::Nanos;
use domain::record::RequestStatus;
use jiff::SignedDuration;
use store::sqlite::SqliteStore;
use store::{Consumed, Cursor, RequestFilter, Requests, StoreError};
use tokio::runtime::Runtime;

use crate::log::Log;
use crate::processor::processor_time;

/// What the recorder writes at once when it is busy.
const BATCH: u64 = 1_000;
/// Records whose commits are timed at each size of the store.
const TIMED: u64 = 100_000;

#[expect(clippy::print_stdout, reason = "this is a report")]
#[expect(clippy::disallowed_methods, reason = "it measures time, and is told its size")]
fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let millions = words.iter().find_map(|word| word.parse::<u64>().ok()).unwrap_or(1);
    let log = Log { records: millions * 1_000_000 };
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
    if words.iter().any(|word| word == "upkeep") {
        upkeep::report(&runtime, &store, &log)?;
    }
    Ok(())
}

/// Times what people and a start wait for.
fn report_reads(runtime: &Runtime, store: &SqliteStore, log: &Log) -> anyhow::Result<()> {
    let ago = |hours| log.end().checked_sub(SignedDuration::from_hours(hours)).ok();
    let all = RequestFilter::default();
    let month = RequestFilter { since: ago(30 * 24), ..all.clone() };
    let day = RequestFilter { since: ago(24), ..all.clone() };
    let busy = Some(log::account(7));
    let quiet = Some(log::account(log::QUIET));
    let of = |account, filter: &RequestFilter| RequestFilter { account, ..filter.clone() };
    let model = |number| Some(log::model(number));

    let sums = [
        ("all", all.clone()),
        ("30 days", month.clone()),
        ("a day", day),
        ("a model", RequestFilter { model: model(0), ..all.clone() }),
        ("a model, 30 days", RequestFilter { model: model(0), ..month.clone() }),
        ("one account", of(busy, &all)),
        ("one account, 30 days", of(busy, &month)),
        ("a quiet account", of(quiet, &all)),
    ];
    for (name, filter) in sums {
        let name = format!("sums (in all, by model, day and key) of {name}");
        report(runtime, &name, || store.summarize(&filter))?;
    }

    let nothing = Term { test: Test::Cost(Relation::Above, Nanos(i64::MAX / 2)), negated: false };
    let pages = [
        ("all", all.clone()),
        ("one account", of(busy, &all)),
        ("a quiet account", of(quiet, &all)),
        ("a quiet account, 30 days", of(quiet, &month)),
        ("one key", RequestFilter { key: Some(log::key(7, 0)), ..all.clone() }),
        ("an unknown key", RequestFilter { key: Some(KeyId::new("none")), ..all.clone() }),
        ("a rare model", RequestFilter { model: model(log::RARE_MODEL), ..all.clone() }),
        ("a status that nothing has", status(RequestStatus::Interrupted)),
        ("a rare status", status(RequestStatus::Failed)),
        ("a rare error", error("upstream_timeout")),
        ("a cost that nothing has", RequestFilter { terms: vec![nothing], ..all.clone() }),
    ];
    for (name, filter) in pages {
        let name = format!("last page of {name}");
        report(runtime, &name, || store.requests_before(&filter, None, 50))?;
    }
    let middle = Some(Cursor((log.records / 2).cast_signed()));
    report(runtime, "a page in the middle", || store.requests_before(&all, middle, 50))?;
    report(runtime, "what limits go on from at a start", || store.consumption(log.month()))?;
    Ok(())
}

fn status(status: RequestStatus) -> RequestFilter {
    RequestFilter { status: Some(status), ..RequestFilter::default() }
}

fn error(code: &str) -> RequestFilter {
    let term = Term { test: Test::Error(vec![code.to_owned()]), negated: false };
    RequestFilter { terms: vec![term], ..RequestFilter::default() }
}

/// What a record took, in microseconds.
struct Cost {
    /// Processor time of the process, so that a busy machine does not distort it (Linux's `schedstat`).
    cpu: f64,
    wall: f64,
}

/// Commits these records.
#[expect(clippy::disallowed_methods, reason = "it measures time")]
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
        let (begun, start) = (processor_time()?, Instant::now());
        runtime.block_on(store.commit(batch))?;
        wall += start.elapsed();
        cpu += processor_time()?.saturating_sub(begun);
    }
    Ok(Cost { cpu: cpu.as_secs_f64() * 1e6 / count, wall: wall.as_secs_f64() * 1e6 / count })
}

#[expect(clippy::print_stdout, reason = "this is a report")]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
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
