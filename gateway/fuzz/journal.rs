//! Fuzzes the replay of the journal. Invariants: no bytes make it panic, no request is found twice, nothing is found
//! that was not written, damage in front of readable frames is reported, and a second replay charges nothing.
//!
//! The first byte of an input selects what the rest is: the bytes of segments, the entries of frames whose lengths and
//! checksums are right, or changes to a journal that the gateway wrote.
#![no_main]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
use domain::idempotency::IdempotencyDigest;
use domain::money::Nanos;
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::usage::{Tokens, Usage, UsageBasis};
use fuzz::process::scratch;
use gateway::ledger::journal::{Journal, JournaledRequest, Recovered};
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use store::sqlite::SqliteStore;
use store::{LedgerEntries, Requests};
use tokio::runtime::Runtime;
use uuid::Uuid;

/// What a segment begins with.
const HEADER: &[u8; 16] = b"tollgate-jrnl\0\0\x01";
/// The most changes to a written journal. Few enough for a checksum to find all of them.
const MAX_CHANGES: usize = 8;
const PRICE: Price = Price {
    input: Nanos(1_000_000_000),
    cached: Nanos(100_000_000),
    output: Nanos(2_000_000_000),
    version: 3,
};

/// What the input is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Segments,
    Entries,
    Changes,
}

/// A journal that the gateway wrote.
struct Written {
    /// Its only segment, without the zeros at its end.
    segment: Vec<u8>,
    /// For each request, the records that some prefix of the journal has for it.
    records: HashMap<RequestId, Vec<RequestRecord>>,
}

static WRITTEN: LazyLock<Written> = LazyLock::new(Written::new);

/// The bytes of a new database, so that no input has to create one.
static DATABASE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = scratch();
    let path = dir.path().join("db");
    let store = SqliteStore::open(&path).expect("the database is created");
    runtime().block_on(store.close());
    drop(store);
    fs::read(path).expect("the database is there")
});

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else { return };
    let (form, segments) = match how & 3 {
        0 => (Form::Segments, segments(rest)),
        1 => (Form::Entries, vec![frames(rest)]),
        _ => (Form::Changes, change(rest)),
    };
    let dir = scratch();
    let journal = dir.path().join("journal");
    fs::create_dir(&journal).expect("the directory is new");
    write(&journal, &segments);
    let recovered = Journal::recover(&journal).expect("the files can be read");
    let records: Vec<_> = recovered.records().cloned().collect();
    let distinct: HashSet<_> = records.iter().map(|record| record.id).collect();
    assert_eq!(distinct.len(), records.len(), "a request was found twice");
    if form == Form::Changes {
        records.iter().for_each(|record| WRITTEN.check(record));
    }
    if how & 4 != 0 {
        let store = dir.path().join("db");
        fs::write(&store, &*DATABASE).expect("the file can be written");
        let store = SqliteStore::open(&store).expect("the database is whole");
        let is_stored = runtime().block_on(replay(&store, &journal, recovered, &records));
        assert!(is_stored || form != Form::Changes, "the store refused what the gateway wrote");
        let must_report = form == Form::Changes && has_damage(&segments);
        assert!(!must_report || has_reported(&journal), "damage was not reported");
        // A process that died before it could remove the files finds them again.
        write(&journal, &segments);
        let again = Journal::recover(&journal).expect("the files can be read");
        runtime().block_on(replay(&store, &journal, again, &records));
    }
});

/// Commits what was recovered, and checks that each request is stored and charged once. Returns whether the store
/// accepted it.
async fn replay(
    store: &SqliteStore,
    journal: &Path,
    recovered: Recovered,
    found: &[RequestRecord],
) -> bool {
    // A value that no gateway wrote may be too large for the store; the files are then kept.
    if recovered.commit(store, None).await.is_err() {
        let left = fs::read_dir(journal).expect("the directory is there").count();
        assert!(left > 0, "the files of a failed replay are gone");
        return false;
    }
    let report = store.verify_ledger().await.expect("the ledger can be read");
    assert!(report.is_consistent(), "{report:?}");
    for record in found {
        let stored = store.find_request(record.id).await.expect("the store can be read");
        assert_eq!(stored.expect("it is stored").account, record.account);
    }
    true
}

/// Returns whether the last replay set a file aside.
fn has_reported(journal: &Path) -> bool {
    let files = fs::read_dir(journal).expect("the directory is there");
    files.flatten().any(|file| file.path().extension().is_some_and(|ending| ending == "damaged"))
}

fn write(journal: &Path, segments: &[Vec<u8>]) {
    for (number, segment) in segments.iter().enumerate() {
        let path: PathBuf = journal.join(format!("{number:010}.journal"));
        fs::write(path, segment).expect("the file can be written");
    }
}

/// Splits `bytes` into up to four segments, each behind its length; the first bit of the length selects whether
/// it begins like one.
fn segments(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    while segments.len() < 4
        && let Some((&[high, low], rest)) = bytes.split_first_chunk()
    {
        let length = usize::from(u16::from_be_bytes([high & 0x7f, low])).min(rest.len());
        let header = if high & 0x80 == 0 { &HEADER[..] } else { &[] };
        segments.push([header, &rest[..length]].concat());
        bytes = &rest[length..];
    }
    segments
}

/// Returns a segment of frames whose entries are in `bytes`, each behind its length.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut segment = HEADER.to_vec();
    while let Some((&[high, low], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
        put_frame(&rest[..length], &mut segment);
        bytes = &rest[length..];
    }
    segment
}

fn put_frame(entry: &[u8], segment: &mut Vec<u8>) {
    let length = u32::try_from(entry.len()).expect("it is short");
    segment.extend(length.to_be_bytes());
    segment.extend(crc32fast::hash(entry).to_be_bytes());
    segment.extend(entry);
}

/// Applies the changes in `program`, four bytes each, to the written journal.
fn change(program: &[u8]) -> Vec<Vec<u8>> {
    let mut segments = vec![WRITTEN.segment.clone()];
    for change in program.chunks_exact(4).take(MAX_CHANGES) {
        let last = segments.len() - 1;
        let segment = &mut segments[last];
        let at = usize::from(u16::from_be_bytes([change[1], change[2]])) % (segment.len() + 1);
        let to = (at + usize::from(change[3])).min(segment.len());
        match change[0] % 6 {
            0 if at < segment.len() => segment[at] ^= 1 << (change[3] & 7),
            1 => segment.truncate(at),
            2 => segment[at..to].fill(0),
            3 => segment.resize(segment.len() + usize::from(change[3]), 0),
            4 => _ = segment.drain(at..to),
            // The rest of what is written goes into the next segment as well.
            _ if segments.len() < 4 => segments.push(WRITTEN.segment.clone()),
            _ => {}
        }
    }
    segments
}

/// Returns whether a segment has a damaged frame in front of a readable one, so that an entry is missing between
/// others. A partial frame at the end is no damage, and cannot be distinguished from a frame with a damaged end.
fn has_damage(segments: &[Vec<u8>]) -> bool {
    segments.iter().any(|segment| {
        let Some(mut rest) = segment.strip_prefix(HEADER) else {
            return !HEADER.starts_with(segment) && segment.iter().any(|&byte| byte != 0);
        };
        let mut is_damaged = false;
        while let Some((&head, body)) = rest.split_first_chunk::<8>() {
            let (length, checksum) = head.split_at(4);
            let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            let Some(entry) = body.get(..length).filter(|entry| !entry.is_empty()) else { break };
            let is_whole = crc32fast::hash(entry).to_be_bytes() == *checksum;
            if is_whole && is_damaged {
                return true;
            }
            is_damaged |= !is_whole;
            rest = &body[length..];
        }
        false
    })
}

fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without IO")
    });
    &RUNTIME
}

// === impl Written ===

impl Written {
    /// Writes requests in all states: open, updated, closed, closed without having begun, and begun again.
    fn new() -> Self {
        let dir = scratch();
        let (journal, _) = Journal::open(dir.path()).expect("the journal is created");
        let mut records: HashMap<_, Vec<_>> = HashMap::new();
        let mut note = |record: RequestRecord| records.entry(record.id).or_default().push(record);
        for number in 1..=5 {
            journal.begin(open(number, 0)).expect("there is room");
            note(interrupted(open(number, 0)));
        }
        journal.update(id(2), |open| open.output_bytes = 4_001);
        note(interrupted(open(2, 4_001)));
        for number in [1, 3, 6, 7] {
            journal.close(&ended(number)).expect("there is room");
            note(ended(number));
        }
        journal.begin(open(4, 0)).expect("there is room");
        journal.flush().expect("there is room");
        journal.close(&ended(2)).expect("there is room");
        note(ended(2));
        journal.flush().expect("there is room");
        let mut segment = fs::read(dir.path().join("0000000000.journal")).expect("it is there");
        let end = segment.iter().rposition(|&byte| byte != 0).expect("it is written");
        segment.truncate(end + 1);
        Self { segment, records }
    }

    /// Checks that the journal has had this record.
    fn check(&self, record: &RequestRecord) {
        let known = self.records.get(&record.id).unwrap_or_else(|| panic!("invented {record:?}"));
        let mut record = record.clone();
        if record.status == RequestStatus::Interrupted {
            // The duration is that until the last write to the file.
            record.duration = Duration::ZERO;
        }
        assert!(known.contains(&record), "not written: {record:?}");
    }
}

fn id(number: u128) -> RequestId {
    RequestId(Uuid::from_u128(number))
}

/// Returns a request in progress that has received `output_bytes`.
fn open(number: u128, output_bytes: u64) -> JournaledRequest {
    let record = RequestRecord {
        id: id(number),
        account: AccountId(Uuid::from_u128(9)),
        key: KeyId::new("key"),
        endpoint: Endpoint::Responses,
        model: Some(ModelId::new("m")),
        deployment: Some(ServedBy {
            upstream: UpstreamName::new("up"),
            upstream_model: Arc::from("there"),
        }),
        stream: true,
        status: RequestStatus::Interrupted,
        http_status: None,
        error_code: None,
        usage: None,
        basis: UsageBasis::None,
        cost: Some(Nanos::ZERO),
        overrun: Nanos::ZERO,
        price_version: Some(PRICE.version),
        started_at: Timestamp::from_second(1_800_000_000).expect("it is in range"),
        duration: Duration::ZERO,
        ttft: None,
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    };
    JournaledRequest { record, price: PRICE, input_bytes: 41, output_bytes }
}

/// Returns the record of a request that was open when its process died.
fn interrupted(open: JournaledRequest) -> RequestRecord {
    let usage = Usage::bounded(open.input_bytes, open.output_bytes);
    let cost = Some(open.price.cost(&usage));
    RequestRecord { usage: Some(usage), basis: UsageBasis::Bounded, cost, ..open.record }
}

/// Returns the record of a request that has ended.
fn ended(number: u128) -> RequestRecord {
    RequestRecord {
        status: RequestStatus::Completed,
        http_status: Some(200),
        usage: Some(Usage { input: Tokens(5), output: Tokens(7), ..Usage::default() }),
        basis: UsageBasis::Upstream,
        cost: Some(Nanos(19_000)),
        overrun: Nanos(7),
        duration: Duration::from_micros(1_234),
        ttft: Some(Duration::from_micros(234)),
        notes: vec!["lossy: ü".to_owned()],
        count: NonZeroU32::new(3).expect("it is not zero"),
        idempotency: Some(IdempotencyDigest([7; 32])),
        ..open(number, 0).record
    }
}
