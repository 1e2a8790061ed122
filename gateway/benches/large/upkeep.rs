//! Measures verification, backup and retention of a large store.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use store::sqlite::SqliteStore;
use store::{LedgerEntries, RetentionCutoff, StoreMaintenance};
use tokio::runtime::Runtime;

use crate::log::Log;
use crate::{TIMED, fill, millis};

/// Verifies and copies the store, deletes a tenth of the records, and prints the times, with the longest step.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
#[expect(clippy::disallowed_methods, reason = "measures time")]
pub(crate) fn report(runtime: &Runtime, store: &SqliteStore, log: &Log) -> anyhow::Result<()> {
    let start = Instant::now();
    let proof = runtime.block_on(store.verify_ledger())?;
    println!("verify: {:.1} s, holds: {}", start.elapsed().as_secs_f64(), proof.is_consistent());
    let start = Instant::now();
    let copy = runtime.block_on(store.copy())?;
    let seconds = start.elapsed().as_secs_f64();
    println!("copy: {seconds:.1} s, {} MB", copy.bytes / 1_000_000);
    drop(copy);

    let cutoff = RetentionCutoff {
        before: None,
        beyond: Some(log.records / 10 * 9),
        ended_before: Timestamp::MAX,
    };
    let (mut steps, mut longest, start) = (Vec::new(), Duration::ZERO, Instant::now());
    loop {
        let step = Instant::now();
        if runtime.block_on(store.delete_old_requests(cutoff, 1_000))? == 0 {
            break;
        }
        longest = longest.max(step.elapsed());
        steps.push(step.elapsed());
    }
    steps.sort();
    let median = steps.get(steps.len() / 2).copied().unwrap_or_default();
    println!(
        "delete {} records: {:.1} s; step of 1,000: median {:.1} ms, longest {:.1} ms",
        log.records / 10,
        start.elapsed().as_secs_f64(),
        millis(median),
        millis(longest),
    );
    let again = fill(runtime, store, log, log.records..log.records + TIMED)?;
    println!("commit into freed pages: {:.2} cpu µs per record", again.cpu);
    let holds = runtime.block_on(store.verify_ledger())?.is_consistent();
    println!("verify after deletion holds: {holds}");
    Ok(())
}
