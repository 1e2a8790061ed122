//! The journal on real files: the next process finds what a killed one left.
//!
//! `replay.rs` tests reading back, `sync.rs` the waits for the disk.

mod properties;
mod replay;
mod sync;

use std::fs::OpenOptions;
use std::num::NonZeroU32;
use std::path::PathBuf;

use jiff::Timestamp;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, UpstreamName};
use domain::idempotency::IdempotencyDigest;
use domain::money::Nanos;
use domain::price::Price;
use domain::record::{RequestStatus, ServedBy};
use domain::usage::{Tokens, Usage, UsageBasis};

const PRICE: Price = Price {
    input: Nanos(1_000_000_000),
    cached: Nanos(100_000_000),
    output: Nanos(2_000_000_000),
    version: 3,
};

/// Returns a request before its end.
fn in_progress(number: u128) -> RequestRecord {
    RequestRecord {
        id: RequestId(Uuid::from_u128(number)),
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
        price_version: Some(3),
        started_at: Timestamp::from_second(1_800_000_000).unwrap(),
        duration: Duration::ZERO,
        ttft: None,
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    }
}

/// Returns a request that goes upstream.
pub(in crate::ledger) fn open(number: u128) -> JournaledRequest {
    JournaledRequest { record: in_progress(number), price: PRICE, input_bytes: 41, output_bytes: 0 }
}

/// Begins a request.
fn begin(journal: &Journal, open: JournaledRequest) {
    journal.begin(open).unwrap();
    journal.flush().unwrap();
}

/// Ends a request.
fn end(journal: &Journal, number: u128) {
    journal.close(&ended(number)).unwrap();
    journal.flush().unwrap();
}

/// Returns a request that has ended. Even numbers have an idempotency key, and every third number stands for
/// several requests.
pub(in crate::ledger) fn ended(number: u128) -> RequestRecord {
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
        count: NonZeroU32::new(if number.is_multiple_of(3) { 70_000 } else { 1 }).unwrap(),
        idempotency: number.is_multiple_of(2).then_some(IdempotencyDigest([7; 32])),
        ..in_progress(number)
    }
}

fn journal(dir: &TempDir) -> Journal {
    Journal::open(dir.path()).unwrap().0
}

/// Returns what the next process finds, as (number, status), without removing it.
fn found(dir: &Path) -> Vec<(u128, RequestStatus)> {
    let recovered = super::replay::find(dir).unwrap();
    let mut found: Vec<_> =
        recovered.records().map(|record| (record.id.0.as_u128(), record.status)).collect();
    found.sort_by_key(|(number, _)| *number);
    found
}

/// Returns what the next process finds, as records.
fn records(dir: &TempDir) -> Vec<RequestRecord> {
    let recovered = super::replay::find(dir.path()).unwrap();
    let mut records: Vec<_> = recovered.records().cloned().collect();
    records.sort_by_key(|record| record.id);
    records
}

/// Returns whether the next process finds a damaged segment.
fn has_damage(dir: &TempDir) -> bool {
    super::replay::find(dir.path()).unwrap().has_damage()
}

fn segments(dir: &TempDir) -> Vec<PathBuf> {
    segment::find_all(dir.path()).unwrap().into_iter().map(|found| found.path).collect()
}

/// Returns a file that accepts no bytes.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// Returns the length of the active segment, in bytes.
fn written(journal: &Journal) -> usize {
    usize::try_from(journal.lock().active.len()).unwrap()
}

use RequestStatus::{Completed, Interrupted};

#[tokio::test]
async fn what_is_open_and_what_is_closed_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    begin(&journal, open(2));
    journal.close(&ended(1)).unwrap();
    journal.close(&ended(3)).unwrap();
    assert_eq!(found(dir.path()), [(1, Completed), (2, Interrupted), (3, Completed)]);
    let records = records(&dir);
    assert_eq!((&records[0], &records[2]), (&ended(1), &ended(3)));
}

/// The written entry was removed with its segment, and the other one was not written yet.
#[tokio::test]
async fn a_request_that_begins_again_behind_a_rotation_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    journal.lock().rotate();
    journal.begin(open(1)).unwrap();
    journal.release_committed(std::iter::empty());
    assert_eq!(found(dir.path()), [(1, Interrupted)]);
}

#[tokio::test]
async fn an_open_request_is_charged_for_what_was_sent_and_had_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    journal.update(RequestId(Uuid::from_u128(1)), |open| {
        open.record.http_status = Some(200);
        open.output_bytes = 4_001;
    });
    let record = &records(&dir)[0];
    let usage = record.usage.unwrap();
    assert_eq!((usage.input, usage.output), (Tokens(11), Tokens(1_001)));
    assert_eq!((record.basis, record.http_status), (UsageBasis::Bounded, Some(200)));
    assert_eq!(record.cost, Some(PRICE.cost(&usage)));
}

#[tokio::test]
async fn what_the_store_has_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    let position = journal.close(&ended(1));
    journal.release_committed(position);
    assert_eq!(found(dir.path()), []);
    assert_eq!(segments(&dir).len(), 1);
    begin(&journal, open(2));
    let position = journal.close(&ended(3));
    journal.release_committed(position);
    assert_eq!(found(dir.path()), [(2, Interrupted), (3, Completed)], "2 is still open");
}

#[tokio::test]
async fn long_segments_are_followed_by_others_and_open_requests_do_not_keep_them() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(0));
    let mut last = ended(1);
    last.notes = vec!["x".repeat(60_000)];
    let mut positions = Vec::new();
    for number in 1..=600 {
        last.id = RequestId(Uuid::from_u128(number));
        positions.extend(journal.close(&last));
    }
    let before = segments(&dir).len();
    assert!(before > 3, "{before}");
    assert_eq!(found(dir.path()).len(), 601);
    journal.release_committed(positions);
    assert!(segments(&dir).len() <= 2, "{:?}", segments(&dir));
    assert!(found(dir.path()).contains(&(0, Interrupted)));
}

#[tokio::test(start_paused = true)]
async fn old_segments_are_followed_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let first = segments(&dir);
    for number in 0..3 {
        begin(&journal, open(100));
        let position = journal.close(&ended(number));
        tokio::time::advance(MAX_SEGMENT_AGE).await;
        journal.release_committed(position);
    }
    assert!(!segments(&dir).contains(&first[0]));
    let found = found(dir.path());
    assert!(found.contains(&(100, Interrupted)) && !found.contains(&(0, Completed)), "{found:?}");
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_stops_admission_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    let real = journal.lock().active.swap_file(full());
    journal.begin(open(2)).unwrap();
    assert!(journal.flush().is_err());
    assert!(journal.flush().is_err(), "the next call does not succeed either");
    assert!(journal.begin(open(5)).is_err(), "no request is admitted");
    assert!(journal.close(&ended(2)).is_some());
    journal.update(RequestId(Uuid::from_u128(1)), |open| open.output_bytes = 400);
    assert!(journal.close(&ended(3)).is_none(), "it is in no segment");
    _ = journal.lock().active.swap_file(real);
    begin(&journal, open(4));
    journal.update(RequestId(Uuid::from_u128(1)), |open| open.output_bytes += 4);
    assert_eq!(found(dir.path()), [(1, Interrupted), (2, Completed), (4, Interrupted)]);
    assert_eq!(records(&dir)[0].usage.unwrap().output, Tokens(101), "memory kept it");
}

#[tokio::test]
async fn requests_that_begin_or_end_at_once_are_written_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.begin(open(1)).unwrap();
    journal.begin(open(2)).unwrap();
    assert_eq!(found(dir.path()), []);
    journal.flush().unwrap();
    assert_eq!(found(dir.path()), [(1, Interrupted), (2, Interrupted)]);
    let length = written(&journal);
    journal.flush().unwrap();
    assert_eq!(written(&journal), length, "each once");
    // Ends are kept as well, and the next write includes them.
    journal.begin(open(3)).unwrap();
    journal.close(&ended(1)).unwrap();
    assert_eq!(written(&journal), length);
    journal.update(RequestId(Uuid::from_u128(2)), |open| open.output_bytes = 4);
    assert_eq!(found(dir.path()), [(1, Completed), (2, Interrupted), (3, Interrupted)]);
    journal.close(&ended(3)).unwrap();
    journal.flush().unwrap();
    assert_eq!(found(dir.path()), [(1, Completed), (2, Interrupted), (3, Completed)]);
}

#[tokio::test]
async fn a_segment_stays_until_the_store_has_what_began_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    journal.lock().rotate();
    // Open again in the next segment, and ended before that is written.
    let position = journal.close(&ended(1)).unwrap();
    journal.lock().rotate();
    journal.release_committed([]);
    assert_eq!(found(dir.path()), [(1, Completed)]);
    journal.release_committed([position]);
    assert_eq!(found(dir.path()), []);
    assert_eq!(segments(&dir).len(), 1);
}

#[tokio::test]
async fn requests_that_begin_before_the_next_segment_are_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    for (number, is_full) in [(1, false), (2, true)] {
        journal.begin(open(number)).unwrap();
        if is_full {
            journal.lock().active.swap_file(full());
            assert!(journal.flush().is_err());
        }
        journal.lock().rotate();
        journal.flush().unwrap();
    }
    assert_eq!(found(dir.path()), [(1, Interrupted), (2, Interrupted)]);
    assert_eq!(segments(&dir).len(), 3);
}

#[tokio::test]
async fn what_a_segment_does_not_take_goes_into_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.begin(open(1)).unwrap();
    journal.begin(open(2)).unwrap();
    journal.lock().active.swap_file(full());
    assert!(journal.close(&ended(2)).is_some());
    let there = std::mem::replace(&mut journal.lock().dir, dir.path().join("nowhere"));
    journal.lock().rotate();
    assert!(journal.flush().is_err(), "there is no next one");
    journal.lock().dir = there;
    journal.lock().rotate();
    assert_eq!(found(dir.path()), [(1, Interrupted), (2, Completed)]);
    journal.flush().unwrap();
}

#[tokio::test]
async fn a_moved_journal_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let journal = Journal::open(&before).unwrap().0.with_sync().unwrap();
    journal.begin(open(1)).unwrap();
    journal.begin(open(2)).unwrap();
    journal.flush().unwrap();
    std::fs::create_dir_all(after.join("occupied")).unwrap();
    assert!(journal.move_to(&after).is_err());
    assert_eq!(journal.path(), before);
    std::fs::remove_dir_all(&after).unwrap();
    journal.move_to(&after).unwrap();
    assert!(!before.exists());
    let position = journal.close(&ended(1)).unwrap();
    journal.lock().rotate();
    journal.sync().await.unwrap();
    assert_eq!(found(&after), [(1, Completed), (2, Interrupted)]);
    let segments = || std::fs::read_dir(&after).unwrap().count();
    assert_eq!(segments(), 2);
    journal.close(&ended(2));
    journal.release_committed([position]);
    assert!(!before.exists());
}

#[tokio::test]
async fn what_a_failed_write_left_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    journal.begin(open(2)).unwrap();
    // The disk is full in the middle of a long record.
    let long = RequestRecord { notes: vec!["x".repeat(60_000)], ..ended(3) };
    let accepts = journal.lock().unwritten.len() + 50_000;
    journal.lock().active.accepts = Some(accepts);
    assert!(journal.close(&long).is_none());
    journal.lock().active.accepts = None;
    end(&journal, 4);
    assert_eq!(found(dir.path()), [(1, Interrupted), (2, Interrupted), (4, Completed)]);
    assert!(!has_damage(&dir));
}

/// Regression test: the file was used again, with zeros in front of frames.
#[tokio::test]
async fn a_segment_that_cannot_be_cleared_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let first = segments(&dir);
    begin(&journal, open(1));
    let position = journal.close(&ended(1));
    journal.lock().active.accepts = Some(20);
    journal.release_committed(position);
    assert_eq!(journal.write_failure(), None);
    assert!(!has_damage(&dir));
    let second = segments(&dir);
    assert!(second.len() == 1 && second != first, "{second:?}");
    begin(&journal, open(3));
    assert_eq!(found(dir.path()), [(3, Interrupted)]);
    assert!(!has_damage(&dir));
}

#[tokio::test]
async fn what_follows_a_failed_clearing_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    let position = journal.close(&ended(1));
    journal.lock().active.accepts = Some(20);
    // The next segment exists already, so that it cannot be created.
    let next = segment::path(dir.path(), journal.lock().active.number() + 1);
    std::fs::create_dir(&next).unwrap();
    journal.release_committed(position);
    assert!(journal.write_failure().is_some());
    journal.lock().active.accepts = None;
    assert_eq!(journal.write_failure(), None);
    std::fs::remove_dir(next).unwrap();
    begin(&journal, open(3));
    assert_eq!(found(dir.path()), [(3, Interrupted)]);
    assert!(!has_damage(&dir));
}

#[tokio::test]
async fn there_is_room_for_the_end_of_every_request_that_was_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let path = segments(&dir).remove(0);
    for number in 0..2_000 {
        begin(&journal, open(number));
    }
    let laid_out = std::fs::metadata(&path).unwrap().len();
    assert!(laid_out >= written(&journal) as u64 + 2_000 * RESERVED_BYTES);
    for number in 0..2_000 {
        journal.close(&ended(number)).unwrap();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), laid_out, "no more room was needed");
    drop(File::open(path));
}
