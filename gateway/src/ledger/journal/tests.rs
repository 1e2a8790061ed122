//! The journal on real files: what a killed process leaves is what the next one finds.

use std::fs::OpenOptions;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::domain::audit::{AuditAction, AuditEntry};
use crate::domain::endpoint::Endpoint;
use crate::domain::id::{AccountId, KeyId, ModelId, UpstreamName};
use crate::domain::idempotency::IdempotencyDigest;
use crate::domain::ledger::{Entry, EntryKind, HOUSE};
use crate::domain::money::Nanos;
use crate::domain::price::Price;
use crate::domain::record::{RequestStatus, ServedBy};
use crate::domain::usage::{Tokens, Usage, UsageBasis};
use crate::store::sqlite::SqliteStore;
use crate::store::{RequestFilter, Requests};
use jiff::Timestamp;

const PRICE: Price = Price {
    input: Nanos(1_000_000_000),
    cached: Nanos(100_000_000),
    output: Nanos(2_000_000_000),
    version: 3,
};

/// A request as it is before its end.
fn going(number: u128) -> RequestRecord {
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
    }
}

fn open(number: u128) -> Open {
    Open { record: going(number), price: PRICE, input_bytes: 41, output_bytes: 0 }
}

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
        idempotency: number.is_multiple_of(2).then_some(IdempotencyDigest([7; 32])),
        ..going(number)
    }
}

fn journal(dir: &TempDir) -> Journal {
    Journal::open(dir.path()).unwrap().0
}

/// What the next process finds, as (number, status); nothing is removed.
fn found(dir: &Path) -> Vec<(u128, RequestStatus)> {
    let (recovered, _) = replay::find(dir).unwrap();
    let mut found: Vec<_> =
        recovered.records().map(|record| (record.id.0.as_u128(), record.status)).collect();
    found.sort_by_key(|(number, _)| *number);
    found
}

/// The same as records.
fn records(dir: &TempDir) -> Vec<RequestRecord> {
    let (recovered, _) = replay::find(dir.path()).unwrap();
    let mut records: Vec<_> = recovered.records().cloned().collect();
    records.sort_by_key(|record| record.id);
    records
}

fn segments(dir: &TempDir) -> Vec<PathBuf> {
    segment::find_all(dir.path()).unwrap().into_iter().map(|found| found.path).collect()
}

use RequestStatus::{Completed, Interrupted};

#[tokio::test]
async fn what_is_open_and_what_is_closed_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.begin(open(1)).unwrap();
    journal.begin(open(2)).unwrap();
    journal.close(&ended(1)).unwrap();
    journal.close(&ended(3)).unwrap();
    assert_eq!(found(dir.path()), [(1, Completed), (2, Interrupted), (3, Completed)]);
    let records = records(&dir);
    assert_eq!((&records[0], &records[2]), (&ended(1), &ended(3)));
}

#[tokio::test]
async fn an_open_request_is_charged_for_what_was_sent_and_had_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.begin(open(1)).unwrap();
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
    journal.begin(open(1)).unwrap();
    let place = journal.close(&ended(1));
    journal.committed(place);
    assert_eq!(found(dir.path()), []);
    assert_eq!(segments(&dir).len(), 1);
    journal.begin(open(2)).unwrap();
    let place = journal.close(&ended(3));
    journal.committed(place);
    assert_eq!(found(dir.path()), [(2, Interrupted), (3, Completed)], "2 is still open");
}

#[tokio::test]
async fn long_segments_are_followed_by_others_and_open_requests_do_not_keep_them() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.begin(open(0)).unwrap();
    let mut last = ended(1);
    last.notes = vec!["x".repeat(60_000)];
    let mut places = Vec::new();
    for number in 1..=600 {
        last.id = RequestId(Uuid::from_u128(number));
        places.extend(journal.close(&last));
    }
    let before = segments(&dir).len();
    assert!(before > 3, "{before}");
    assert_eq!(found(dir.path()).len(), 601);
    journal.committed(places);
    assert!(segments(&dir).len() <= 2, "{:?}", segments(&dir));
    assert!(found(dir.path()).contains(&(0, Interrupted)));
}

#[tokio::test(start_paused = true)]
async fn old_segments_are_followed_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let first = segments(&dir);
    for number in 0..3 {
        journal.begin(open(100)).unwrap();
        let place = journal.close(&ended(number));
        tokio::time::advance(OLDEST_SEGMENT).await;
        journal.committed(place);
    }
    assert!(!segments(&dir).contains(&first[0]));
    let found = found(dir.path());
    assert!(found.contains(&(100, Interrupted)) && !found.contains(&(0, Completed)), "{found:?}");
}

#[tokio::test]
async fn a_file_cut_at_any_byte_gives_all_entries_before() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let mut ends = vec![HEADER_LENGTH];
    for number in 1..=3 {
        journal.begin(open(number)).unwrap();
        ends.push(HEADER_LENGTH + written(&journal));
    }
    let bytes = std::fs::read(&segments(&dir)[0]).unwrap();
    for cut in 0..=ends[3] {
        for filling in [0, 512] {
            let other = tempfile::tempdir().unwrap();
            let mut torn = bytes[..cut].to_vec();
            torn.resize(cut + filling, 0);
            std::fs::write(segment::path(other.path(), 0), torn).unwrap();
            let expected = ends[1..].iter().filter(|&&end| end <= cut).count();
            // the last bytes of an entry may be zeros themselves
            let count = found(other.path()).len();
            assert!(count == expected || filling > 0 && count == expected + 1, "{cut}: {count}");
        }
    }
}

const HEADER_LENGTH: usize = segment::HEADER.len();

fn written(journal: &Journal) -> usize {
    usize::try_from(journal.lock().active.len()).unwrap()
}

#[tokio::test]
async fn what_is_damaged_is_stepped_over_and_kept_aside() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.close(&ended(1)).unwrap();
    let first = written(&journal);
    journal.close(&ended(2)).unwrap();
    journal.close(&ended(3)).unwrap();
    let path = segments(&dir).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[HEADER_LENGTH + first + 40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(found(dir.path()), [(1, Completed), (3, Completed)]);

    let foreign = segment::path(dir.path(), 50);
    std::fs::write(&foreign, b"tollgate-jrnl\0\0\x09 of a later version").unwrap();
    std::fs::write(segment::path(dir.path(), 51), b"").unwrap();
    let store = SqliteStore::open(&dir.path().join("db")).unwrap();
    let (next, recovered) = Journal::open(dir.path()).unwrap();
    recovered.commit(&store).await.unwrap();
    assert_eq!(segments(&dir).len(), 1, "that of the next process");
    assert!(path.with_extension("damaged").exists() && foreign.with_extension("damaged").exists());
    drop(next);
}

#[tokio::test]
async fn replaying_twice_is_replaying_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.begin(open(1)).unwrap();
    journal.begin(open(2)).unwrap();
    journal.close(&ended(2)).unwrap();
    let copy = std::fs::read(&segments(&dir)[0]).unwrap();
    let store = SqliteStore::open(&dir.path().join("db")).unwrap();
    let account = AccountId(Uuid::from_u128(9));
    let credit = Nanos(19_000 + 5);
    let at = Timestamp::UNIX_EPOCH;
    let first = Entry { account, amount: credit, kind: EntryKind::Trial, at };
    let audit = AuditEntry {
        at,
        actor: None,
        action: AuditAction::AccountCredit,
        object: String::new(),
        account: Some(account),
        details: String::new(),
        call: None,
    };
    store.add_entry(&first, &audit).await.unwrap();
    let bound = PRICE.cost(&Usage::bounded(41, 0));
    for _ in 0..2 {
        std::fs::write(segment::path(dir.path(), 0), &copy).unwrap();
        let (_, recovered) = Journal::open(dir.path()).unwrap();
        recovered.commit(&store).await.unwrap();
        let all = store.requests_before(&RequestFilter::default(), None, 10).await.unwrap();
        let costs: Vec<_> = all.iter().map(|(_, it)| (it.cost.unwrap(), it.overrun)).collect();
        // newest first; the account could pay 5 for the open one, and the rest is the house's
        assert_eq!(costs, [(Nanos(5), bound + Nanos(-5)), (Nanos(19_000), Nanos(7))]);
        assert_eq!(store.balance(account).await.unwrap(), Nanos::ZERO);
        assert_eq!(store.balance(HOUSE).await.unwrap(), Nanos(5 - 7) + -bound);
    }
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_stops_admission_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    journal.begin(open(1)).unwrap();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let real = journal.lock().active.swap_file(full());
    assert!(journal.begin(open(2)).is_err());
    journal.update(RequestId(Uuid::from_u128(1)), |open| open.output_bytes = 400);
    assert!(journal.close(&ended(3)).is_none(), "it is in no segment");
    _ = journal.lock().active.swap_file(real);
    journal.begin(open(4)).unwrap();
    journal.update(RequestId(Uuid::from_u128(1)), |open| open.output_bytes += 4);
    assert_eq!(found(dir.path()), [(1, Interrupted), (4, Interrupted)]);
    assert_eq!(records(&dir)[0].usage.unwrap().output, Tokens(101), "memory kept it");
}

#[tokio::test]
async fn there_is_room_for_the_end_of_every_request_that_was_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let path = segments(&dir).remove(0);
    for number in 0..2_000 {
        journal.begin(open(number)).unwrap();
    }
    let laid_out = std::fs::metadata(&path).unwrap().len();
    assert!(laid_out >= written(&journal) as u64 + 2_000 * RESERVE);
    for number in 0..2_000 {
        journal.close(&ended(number)).unwrap();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), laid_out, "no more room was needed");
    drop(File::open(path));
}

/// What happens to a journal.
#[derive(Clone, Debug)]
enum Step {
    Begin(u8),
    Update(u8),
    Close(u8),
    Commit,
    Rotate,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..20_u8).prop_map(Step::Begin),
        2 => (0..20_u8).prop_map(Step::Update),
        4 => (0..20_u8).prop_map(Step::Close),
        1 => Just(Step::Commit),
        1 => Just(Step::Rotate),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_happens_nothing_that_the_store_lacks_is_missing(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(&dir);
        let mut begun = HashMap::new();
        let (mut waiting, mut stored) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Begin(number) if begun.get(&number) != Some(&Completed) => {
                    journal.begin(open(number.into())).unwrap();
                    begun.insert(number, Interrupted);
                }
                Step::Update(number) => journal
                    .update(RequestId(Uuid::from_u128(number.into())), |open| open.output_bytes += 1),
                Step::Close(number) if begun.get(&number) != Some(&Completed) => {
                    waiting.push((number, journal.close(&ended(number.into())).unwrap()));
                    begun.insert(number, Completed);
                }
                Step::Commit => {
                    journal.committed(waiting.iter().map(|(_, place)| *place));
                    stored.extend(waiting.drain(..).map(|(number, _)| number));
                }
                Step::Rotate => journal.lock().rotate(dir.path()),
                Step::Begin(_) | Step::Close(_) => {}
            }
        }
        let found: HashMap<_, _> = found(dir.path()).into_iter().collect();
        for (number, status) in begun {
            let seen = found.get(&u128::from(number));
            if stored.contains(&number) {
                continue;
            }
            prop_assert_eq!(seen, Some(&status), "request {}", number);
        }
    }
}

#[tokio::test]
async fn a_request_is_on_the_disk_when_the_wait_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (syncs, synced) = std::sync::mpsc::channel();
    let journal = journal(&dir).synced_by(move |files, is_new| {
        syncs.send((files.len(), is_new)).ok();
        Ok(())
    });
    let journal = journal.unwrap();
    assert!(synced.try_recv().is_err(), "nobody waits yet");
    journal.begin(open(1)).unwrap();
    journal.synced().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((1, true)), "the file and its name");
    journal.begin(open(2)).unwrap();
    journal.synced().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((1, false)));
    journal.lock().rotate(dir.path());
    journal.close(&ended(1)).unwrap();
    journal.synced().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((2, true)), "what came before the new segment, too");
    journal.synced().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((1, false)));
}

#[tokio::test]
async fn a_segment_that_the_disk_did_not_take_is_synced_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (syncs, synced) = std::sync::mpsc::channel();
    let mut failures = 1;
    let journal = journal(&dir).synced_by(move |files, _| {
        syncs.send(files.len()).ok();
        let failed = failures > 0;
        failures = 0;
        if failed { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    });
    let journal = journal.unwrap();
    journal.begin(open(1)).unwrap();
    journal.lock().rotate(dir.path());
    assert!(journal.synced().await.is_err());
    journal.synced().await.unwrap();
    assert_eq!((synced.recv(), synced.recv()), (Ok(2), Ok(2)));
}

#[tokio::test]
async fn a_journal_on_disk_is_read_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir).on_disk().unwrap();
    assert!(journal.is_on_disk());
    journal.begin(open(1)).unwrap();
    journal.close(&ended(2)).unwrap();
    journal.synced().await.unwrap();
    assert_eq!(found(dir.path()), [(1, Interrupted), (2, Completed)]);
}
