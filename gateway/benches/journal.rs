//! Measures journal operations: opening and closing a request, and updating an open stream.
//! `cargo bench -p gateway --bench journal`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
use domain::money::Nanos;
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::usage::{Tokens, Usage, UsageBasis};
use gateway::ledger::journal::{Journal, JournaledRequest};
use jiff::Timestamp;
use uuid::Uuid;

/// Requests per iteration. At its end, all of them are marked as committed, like after a batch.
const REQUESTS: u32 = 256;

fn main() {
    divan::main();
}

fn record(number: u32) -> RequestRecord {
    RequestRecord {
        id: RequestId(Uuid::from_u128(u128::from(number))),
        account: AccountId(Uuid::from_u128(7)),
        key: KeyId::new("0123456789ab"),
        endpoint: Endpoint::ChatCompletions,
        model: Some(ModelId::new("llama-3.3-70b")),
        deployment: Some(ServedBy {
            upstream: UpstreamName::new("vllm-1"),
            upstream_model: Arc::from("meta-llama/Llama-3.3-70B-Instruct"),
        }),
        stream: true,
        status: RequestStatus::Completed,
        http_status: Some(200),
        error_code: None,
        usage: Some(Usage { input: Tokens(1_200), output: Tokens(300), ..Usage::default() }),
        basis: UsageBasis::Upstream,
        cost: Some(Nanos(1_500_000)),
        overrun: Nanos::ZERO,
        price_version: Some(1),
        started_at: Timestamp::UNIX_EPOCH,
        duration: Duration::from_millis(1_234),
        ttft: Some(Duration::from_millis(123)),
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    }
}

fn records() -> Vec<RequestRecord> {
    (0..REQUESTS).map(record).collect()
}

fn open_request(record: &RequestRecord) -> JournaledRequest {
    JournaledRequest {
        record: record.clone(),
        price: Price::default(),
        input_bytes: 4_800,
        output_bytes: 0,
    }
}

#[divan::bench]
fn open_and_close(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = Journal::open(folder.path()).expect("a journal");
    let records = records();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut closed = Vec::new();
        for record in &records {
            journal.begin(black_box(open_request(record))).expect("there is room");
            journal.flush().expect("it is written");
            closed.extend(journal.close(black_box(record)));
            journal.flush().expect("it is written");
        }
        journal.release_committed(closed);
    });
}

#[divan::bench]
fn close_only(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = Journal::open(folder.path()).expect("a journal");
    let records = records();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let closed: Vec<_> = records.iter().filter_map(|it| journal.close(black_box(it))).collect();
        journal.release_committed(closed);
    });
}

#[divan::bench]
fn update_open_stream(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = Journal::open(folder.path()).expect("a journal");
    let record = record(1);
    journal.begin(open_request(&record)).expect("there is room");
    bencher.bench_local(|| journal.update(record.id, |open| open.output_bytes += 2_048));
}
