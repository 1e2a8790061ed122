//! What a store of many millions of records answers in, and whether it takes more as fast.
//!
//! `TOLLGATE_BENCH_MILLIONS=10 cargo bench -p gateway --bench large`. Fills a store over ninety days of
//! records, then times the reads that people wait for, commits before and after, a proof, a copy and
//! forgetting. Each read is timed on its first run, with the store's caches cold, and on the next ten.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::domain::endpoint::Endpoint;
use gateway::domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
use gateway::domain::ledger::{Entry, EntryKind};
use gateway::domain::money::Nanos;
use gateway::domain::record::{RequestRecord, RequestStatus, ServedBy};
use gateway::domain::usage::{Tokens, Usage, UsageBasis};
use gateway::store::sqlite::SqliteStore;
use gateway::store::{Batch, Books, Cursor, Forget, RequestFilter, Requests, StoreError, Upkeep};
use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Runtime;
use uuid::Uuid;

const BATCH: u64 = 500;
/// Records whose commits are timed, at the start and at the end.
const TIMED: u64 = 100_000;
const ACCOUNTS: u64 = 200;
/// Has one request in this many.
const QUIET: u64 = 50_000;
const START: i64 = 1_800_000_000_000_000;
const NINETY_DAYS: u64 = 90 * 86_400_000_000;

/// The size of the bench, in records.
struct Scale(u64);

#[expect(clippy::print_stdout, reason = "this is a report")]
#[expect(clippy::disallowed_methods, reason = "it measures time, and is told its size")]
fn main() -> anyhow::Result<()> {
    let millions = std::env::var("TOLLGATE_BENCH_MILLIONS").unwrap_or_else(|_| "1".to_owned());
    let scale = Scale(millions.parse::<u64>()? * 1_000_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.db");
    let store = SqliteStore::open(&path)?;

    let first = fill(&runtime, &store, &scale, 0..TIMED)?;
    let most = fill(&runtime, &store, &scale, TIMED..scale.0 - TIMED)?;
    let last = fill(&runtime, &store, &scale, scale.0 - TIMED..scale.0)?;
    println!("{} records, {} bytes each", scale.0, std::fs::metadata(&path)?.len() / scale.0);
    println!(
        "commit, µs per record: {first:.2} at the start, {most:.2} between, {last:.2} at the end"
    );
    runtime.block_on(store.close());
    drop(store);

    let start = Instant::now();
    let store = SqliteStore::open(&path)?;
    println!("open: {:.1} ms", millis(start.elapsed()));
    let end = scale.time(scale.0);
    let days = |days: i64| RequestFilter {
        since: end.checked_sub(SignedDuration::from_hours(24 * days)).ok(),
        ..RequestFilter::default()
    };
    let all = RequestFilter::default();
    let of = |account| RequestFilter { account: Some(account), ..all.clone() };
    let sums: [(&str, RequestFilter); 6] = [
        ("summary of everything", all.clone()),
        ("summary of 30 days", days(30)),
        (
            "summary of 30 days, one account",
            RequestFilter { account: Some(account(7)), ..days(30) },
        ),
        ("summary of a quiet account", of(quiet())),
        ("summary of a model", RequestFilter { model: Some(model(0)), ..all.clone() }),
        ("summary of a day", days(1)),
    ];
    for (name, filter) in sums {
        report(&runtime, name, || store.summarize(&filter))?;
    }
    let key = RequestFilter { key: Some(KeyId::new(format!("{:012x}", 7))), ..of(account(7)) };
    let rejected = RequestFilter { status: Some(RequestStatus::Interrupted), ..all.clone() };
    let pages: [(&str, RequestFilter); 6] = [
        ("last page of everything", all.clone()),
        ("last page of a busy account", of(account(7))),
        ("last page of a quiet account", of(quiet())),
        (
            "last page of a quiet account, 30 days",
            RequestFilter { account: Some(quiet()), ..days(30) },
        ),
        ("last page of a key", key),
        ("last page of a status that nothing has", rejected),
    ];
    for (name, filter) in pages {
        report(&runtime, name, || store.requests_before(&filter, None, 50))?;
    }
    report(&runtime, "a page in the middle", || {
        store.requests_before(&all, Some(Cursor((scale.0 / 2).cast_signed())), 50)
    })?;
    for (name, account) in [("busy", account(7)), ("quiet", quiet())] {
        let name = format!("last ledger page of a {name} account");
        report(&runtime, &name, || store.entries_before(Some(account), None, 50))?;
    }

    let start = Instant::now();
    let proof = runtime.block_on(store.prove())?;
    println!("proof: {:.1} s, holds: {}", start.elapsed().as_secs_f64(), proof.holds());
    let start = Instant::now();
    let copy = runtime.block_on(store.copy())?;
    let seconds = start.elapsed().as_secs_f64();
    println!("copy: {seconds:.1} s, {} MB", copy.bytes / 1_000_000);
    forget(&runtime, &store, &scale)
}

/// Forgets a tenth of the records, and says what the longest step took.
#[expect(clippy::print_stdout, reason = "this is a report")]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn forget(runtime: &Runtime, store: &SqliteStore, scale: &Scale) -> anyhow::Result<()> {
    let wish =
        Forget { before: None, beyond: Some(scale.0 / 10 * 9), ended_before: Timestamp::MAX };
    let (mut steps, mut longest, start) = (Vec::new(), Duration::ZERO, Instant::now());
    loop {
        let step = Instant::now();
        if runtime.block_on(store.forget_requests(wish, 1_000))? == 0 {
            break;
        }
        longest = longest.max(step.elapsed());
        steps.push(step.elapsed());
    }
    steps.sort();
    let median = steps.get(steps.len() / 2).copied().unwrap_or_default();
    println!(
        "forgetting {} records: {:.1} s; a step of 1,000: {:.1} ms, the longest {:.1} ms",
        scale.0 / 10,
        start.elapsed().as_secs_f64(),
        millis(median),
        millis(longest),
    );
    let again = fill(runtime, store, scale, scale.0..scale.0 + TIMED)?;
    println!("commit, cpu µs per record: {again:.2} into the freed pages");
    let holds = runtime.block_on(store.prove())?.holds();
    println!("proof after that holds: {holds}");
    Ok(())
}

/// Commits these records, and returns the microseconds of processor time that each took, so that a
/// busy machine does not distort it (Linux's `schedstat`).
fn fill(
    runtime: &Runtime,
    store: &SqliteStore,
    scale: &Scale,
    numbers: std::ops::Range<u64>,
) -> anyhow::Result<f64> {
    let count = numbers.end - numbers.start;
    let mut spent = Duration::ZERO;
    for first in numbers.step_by(usize::try_from(BATCH)?) {
        let batch = scale.batch(first);
        let start = processor_time()?;
        runtime.block_on(store.commit(Arc::new(batch)))?;
        spent += processor_time()?.saturating_sub(start);
    }
    Ok(spent.as_secs_f64() * 1e6 / f64::from(u32::try_from(count)?))
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
    println!("{name:40} {:8.2} ms first, {:8.2} ms then", millis(first), millis(next));
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The time that all threads of this process have run so far.
fn processor_time() -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

fn account(n: u64) -> AccountId {
    AccountId(Uuid::from_u128(u128::from(n) << 64 | 7))
}

/// The account that is hardly ever there.
fn quiet() -> AccountId {
    account(ACCOUNTS)
}

fn model(n: u64) -> ModelId {
    ModelId::new(format!("model-{n}"))
}

impl Scale {
    /// When the n-th request came in.
    fn time(&self, n: u64) -> Timestamp {
        let micros = START + (NINETY_DAYS / self.0 * n).cast_signed();
        Timestamp::from_microsecond(micros).unwrap_or_default()
    }

    fn batch(&self, first: u64) -> Batch {
        let records: Vec<_> = (first..first + BATCH).map(|n| self.record(n)).collect();
        let charge = |record: &RequestRecord| Entry {
            account: record.account,
            amount: -record.cost.unwrap_or_default(),
            kind: EntryKind::Charge(record.id),
            at: record.started_at,
        };
        Batch { entries: records.iter().map(charge).collect(), records }
    }

    fn record(&self, n: u64) -> RequestRecord {
        let started_at = self.time(n);
        // Scatters accounts and models, and fills the random part of the ids.
        let random = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = (u128::from(random) << 16 | u128::from(n)).to_be_bytes();
        let id = uuid::Builder::from_unix_timestamp_millis(
            started_at.as_millisecond().cast_unsigned(),
            bytes[6..].try_into().unwrap_or(&[0; 10]),
        );
        let payer = if n.is_multiple_of(QUIET) { ACCOUNTS } else { (random >> 32) % ACCOUNTS };
        RequestRecord {
            id: RequestId(id.into_uuid()),
            account: account(payer),
            key: KeyId::new(format!("{payer:012x}")),
            endpoint: Endpoint::ChatCompletions,
            model: Some(model(random >> 20 & 7)),
            deployment: Some(ServedBy {
                upstream: UpstreamName::new("vllm-1"),
                upstream_model: Arc::from("meta-llama/Llama-3.3-70B-Instruct"),
            }),
            stream: true,
            status: if random.is_multiple_of(16) {
                RequestStatus::Cancelled
            } else {
                RequestStatus::Completed
            },
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
            started_at,
            duration: Duration::from_millis(1_850),
            ttft: Some(Duration::from_millis(210)),
            notes: Vec::new(),
            idempotency: None,
        }
    }
}
