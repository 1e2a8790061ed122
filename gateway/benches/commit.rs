//! Measures committing a request record with its charge to the store, by batch size.
//!
//! `cargo bench -p gateway --bench commit`. Prints the CPU time of the whole process (Linux's `schedstat`, so that
//! a busy machine does not distort it) and the wall-clock time, per record.

mod processor;
mod records;

use std::sync::Arc;
use std::time::{Duration, Instant};

use processor::cpu_time;
use records::batch;
use store::sqlite::SqliteStore;
use store::{RequestFilter, Requests, TimeUnit};

const RECORDS: usize = 200_000;

#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
#[expect(clippy::disallowed_methods, reason = "measures time")]
fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!("batch  cpu µs/record  wall µs/record  bytes/record");
    for size in [1, 10, 100, 300, 1_000] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.db");
        let store = SqliteStore::open(&path)?;
        let records = if size == 1 { RECORDS / 10 } else { RECORDS };
        let batches: Vec<_> = (0..records / size).map(|n| batch(n * size, size)).collect();
        let (cpu, wall) = (cpu_time()?, Instant::now());
        for batch in batches {
            runtime.block_on(store.commit(Arc::new(batch)))?;
        }
        let (cpu, wall) = (cpu_time()?.saturating_sub(cpu), wall.elapsed());
        let start = Instant::now();
        let sums = runtime.block_on(store.summarize(&RequestFilter::default(), TimeUnit::Day))?;
        let summary = start.elapsed();
        runtime.block_on(store.close());
        let bytes = std::fs::metadata(&path)?.len() / sums.totals.requests;
        let count = u32::try_from(sums.totals.requests)?;
        let per = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(count);
        println!(
            "{size:5}  {:13.2}  {:14.2}  {bytes:12}  (summary {summary:?})",
            per(cpu),
            per(wall)
        );
    }
    Ok(())
}
