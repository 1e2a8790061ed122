//! Measures committing a request record with its charge to the store, by batch size.
//!
//! `cargo bench -p gateway --bench commit`. Prints the CPU time of the whole process (Linux's `schedstat`, so that
//! a busy machine does not distort it) and the wall-clock time, per record.

mod processor;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::usage::{Tokens, Usage, UsageBasis};
use jiff::Timestamp;
use processor::cpu_time;
use store::sqlite::SqliteStore;
use store::{RequestFilter, Requests, TimeUnit};
use uuid::Uuid;

const RECORDS: usize = 200_000;
const ACCOUNTS: u64 = 50;

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

fn batch(first: usize, size: usize) -> Vec<RequestRecord> {
    (first..first + size).map(|n| record(n as u64)).collect()
}

/// Returns the `n`th record of a load of 20,000 streamed chat requests per second, over several accounts and models.
fn record(n: u64) -> RequestRecord {
    let micros = 1_800_000_000_000_000 + n * 50;
    // Scatters the accounts, and fills the random part of the ids.
    let random = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bytes = (u128::from(random) << 16 | u128::from(n)).to_be_bytes();
    let id = uuid::Builder::from_unix_timestamp_millis(
        micros / 1_000,
        bytes[6..].try_into().unwrap_or(&[0; 10]),
    );
    let account = random >> 32 & 0xffff;
    let account = account % ACCOUNTS;
    RequestRecord {
        id: RequestId(id.into_uuid()),
        account: AccountId(Uuid::from_u128(u128::from(account) << 64 | 7)),
        key: KeyId::new(format!("{account:012x}")),
        endpoint: Endpoint::ChatCompletions,
        model: Some(ModelId::new(["llama-3.3-70b", "gpt-oss-120b"][(random & 1) as usize])),
        deployment: Some(ServedBy {
            upstream: UpstreamName::new("vllm-1"),
            upstream_model: Arc::from("meta-llama/Llama-3.3-70B-Instruct"),
        }),
        stream: true,
        status: RequestStatus::Completed,
        http_status: Some(200),
        error_code: None,
        usage: Some(Usage {
            input: Tokens(1_200),
            cached: Some(Tokens(1_024)),
            output: Tokens(n % 700),
            reasoning: None,
        }),
        basis: UsageBasis::Upstream,
        cost: Some(Nanos(1_234_567)),
        overrun: Nanos::ZERO,
        price_version: Some(3),
        started_at: Timestamp::from_microsecond(micros.cast_signed()).unwrap_or_default(),
        duration: Duration::from_millis(1_850),
        ttft: Some(Duration::from_millis(210)),
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    }
}
