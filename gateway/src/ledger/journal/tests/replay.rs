//! Replay of journal files in any condition.

use jiff::Timestamp;
use uuid::Uuid;

use super::super::{Journal, segment};
use super::{
    Completed, Interrupted, PRICE, begin, end, ended, found, journal, open, records, segments,
    written,
};
use domain::account::{Account, AccountStatus, Role};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::{AccountId, KeyId, PlanName};
use domain::key::{ClientGone, Key, KeyDigest, Translation};
use domain::ledger::{Entry, EntryKind, HOUSE};
use domain::limit::Limits;
use domain::money::Nanos;
use domain::record::RequestRecord;
use domain::usage::Usage;
use store::sqlite::SqliteStore;
use store::{Identities, RequestFilter, Requests};

const HEADER_LENGTH: usize = segment::HEADER.len();

#[tokio::test]
async fn a_file_cut_at_any_byte_gives_all_entries_before() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let mut ends = vec![HEADER_LENGTH];
    for number in 1..=3 {
        begin(&journal, open(number));
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
            // The last bytes of an entry may themselves be zeros.
            let count = found(other.path()).len();
            assert!(count == expected || filling > 0 && count == expected + 1, "{cut}: {count}");
        }
    }
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
    recovered.commit(&store, None).await.unwrap();
    assert_eq!(segments(&dir).len(), 1, "that of the next process");
    assert!(path.with_extension("damaged").exists() && foreign.with_extension("damaged").exists());
    drop(next);
}

/// A frame that is longer than a reader accepts would hide all later frames of the segment.
#[tokio::test]
async fn notes_of_any_length_leave_the_segment_readable() {
    let long = "ü".repeat(100_000);
    let texts = || KeyId::new("k".repeat(100_000));
    for notes in [vec![long; 40], vec!["n".repeat(9); 200_000], vec![String::new(); 100_000]] {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(&dir);
        let mut first = open(1);
        (first.record.notes, first.record.key) = (notes.clone(), texts());
        first.record.error_code = Some("e".repeat(100_000));
        begin(&journal, first);
        journal.close(&RequestRecord { notes: notes.clone(), ..ended(2) }).unwrap();
        journal.close(&ended(3)).unwrap();
        assert_eq!(found(dir.path()), [(1, Interrupted), (2, Completed), (3, Completed)]);
        let record = &records(&dir)[1];
        let kept: usize = record.notes.iter().map(|note| note.len() + 2).sum();
        assert!(kept <= 512 * 1024 && record.notes.len() <= 65_535);
        assert!(record.notes.iter().zip(&notes).all(|(kept, note)| note.starts_with(kept)));
        let exact = RequestRecord { notes: record.notes.clone(), ..ended(2) };
        assert_eq!(*record, exact, "the other fields are exact");
    }
}

#[tokio::test]
async fn replaying_twice_is_replaying_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    begin(&journal, open(2));
    end(&journal, 2);
    let copy = std::fs::read(&segments(&dir)[0]).unwrap();
    let store = SqliteStore::open(&dir.path().join("db")).unwrap();
    let account = AccountId(Uuid::from_u128(9));
    let credit = Nanos(19_000 + 5);
    let at = Timestamp::UNIX_EPOCH;
    let first = Entry { account, amount: credit, kind: EntryKind::Trial, at };
    store.add_entry(&first, &audit()).await.unwrap();
    let bound = PRICE.cost(&Usage::bounded(41, 0));
    for _ in 0..2 {
        std::fs::write(segment::path(dir.path(), 0), &copy).unwrap();
        let (_, recovered) = Journal::open(dir.path()).unwrap();
        recovered.commit(&store, None).await.unwrap();
        let all = store.requests_before(&RequestFilter::default(), None, 10).await.unwrap();
        let costs: Vec<_> = all.iter().map(|(_, it)| (it.cost.unwrap(), it.overrun)).collect();
        // Newest first. The account could pay 5 for the open one; the rest is the operator's loss.
        assert_eq!(costs, [(Nanos(5), bound + Nanos(-5)), (Nanos(19_000), Nanos(7))]);
        assert_eq!(store.balance(account).await.unwrap(), Nanos::ZERO);
        assert_eq!(store.balance(HOUSE).await.unwrap(), Nanos(5 - 7) + -bound);
    }
}

/// An earlier replay stored the first of two open requests and could not remove the file.
#[tokio::test]
async fn an_open_request_that_the_store_has_is_not_charged_again() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    begin(&journal, open(1));
    let first = std::fs::read(&segments(&dir)[0]).unwrap();
    begin(&journal, open(2));
    let both = std::fs::read(&segments(&dir)[0]).unwrap();
    let store = SqliteStore::open(&dir.path().join("db")).unwrap();
    let account = AccountId(Uuid::from_u128(9));
    let bound = PRICE.cost(&Usage::bounded(41, 0));
    let amount = bound + bound + Nanos(5);
    let at = Timestamp::UNIX_EPOCH;
    let credit = Entry { account, amount, kind: EntryKind::Trial, at };
    store.add_entry(&credit, &audit()).await.unwrap();
    for bytes in [first, both] {
        std::fs::write(segment::path(dir.path(), 0), bytes).unwrap();
        let (_, recovered) = Journal::open(dir.path()).unwrap();
        recovered.commit(&store, None).await.unwrap();
    }
    let all = store.requests_before(&RequestFilter::default(), None, 10).await.unwrap();
    let costs: Vec<_> = all.iter().map(|(_, it)| (it.cost.unwrap(), it.overrun)).collect();
    assert_eq!(costs, [(bound, Nanos::ZERO); 2]);
    assert_eq!(store.balance(account).await.unwrap(), Nanos(5));
}

#[tokio::test]
async fn an_open_request_keeps_the_overrun_that_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    let mut open = open(1);
    open.record.overrun = Nanos(7);
    begin(&journal, open);
    let store = SqliteStore::open(&dir.path().join("db")).unwrap();
    let (_, recovered) = Journal::open(dir.path()).unwrap();
    recovered.commit(&store, None).await.unwrap();
    let bound = PRICE.cost(&Usage::bounded(41, 0));
    let all = store.requests_before(&RequestFilter::default(), None, 10).await.unwrap();
    assert_eq!((all[0].1.cost, all[0].1.overrun), (Some(Nanos::ZERO), bound + Nanos(7)));
}

#[tokio::test]
async fn what_was_open_is_charged_no_more_than_its_key_may_spend() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    for number in 1..=3 {
        begin(&journal, open(number));
    }
    end(&journal, 3);
    let store = SqliteStore::open(&dir.path().join("db")).unwrap();
    let account = with_key(&store, Nanos(19_000 + 5)).await;
    let (_, recovered) = Journal::open(dir.path()).unwrap();
    recovered.commit(&store, None).await.unwrap();
    let bound = PRICE.cost(&Usage::bounded(41, 0));
    let all = store.requests_before(&RequestFilter::default(), None, 10).await.unwrap();
    let costs: Vec<_> = all.iter().map(|(_, it)| (it.cost.unwrap(), it.overrun)).collect();
    // Newest first.
    let none = (Nanos::ZERO, bound);
    assert_eq!(costs, [none, (Nanos(5), bound + Nanos(-5)), (Nanos(19_000), Nanos(7))]);
    assert_eq!(store.balance(account).await.unwrap(), CREDIT + Nanos(-19_005));
}

const CREDIT: Nanos = Nanos(1_000_000_000);

/// Adds the account of all requests, with credit, and their key with the spending cap `cap`.
async fn with_key(store: &SqliteStore, cap: Nanos) -> AccountId {
    let at = Timestamp::UNIX_EPOCH;
    let account = Account {
        id: AccountId(Uuid::from_u128(9)),
        name: "alice".to_owned(),
        role: Role::Member,
        status: AccountStatus::Active,
        plan: PlanName::new("free"),
        created_at: at,
    };
    let trial = Entry { account: account.id, amount: CREDIT, kind: EntryKind::Trial, at };
    store.add_account(&account, "", &[trial], None, &audit()).await.unwrap();
    let id = KeyId::new("key");
    let key = Key {
        id: id.clone(),
        digest: KeyDigest::of("key"),
        account: account.id,
        label: String::new(),
        origin: id,
        limits: Limits::default(),
        spend_cap: Some(cap),
        models: Vec::new(),
        translation: Translation::default(),
        client_gone: ClientGone::default(),
        trace_content: false,
        created_at: at,
        expires_at: None,
        revoked_at: None,
        successor: None,
        created_by: None,
    };
    store.add_key(&key, &audit()).await.unwrap();
    account.id
}

fn audit() -> AuditEntry {
    AuditEntry {
        at: Timestamp::UNIX_EPOCH,
        actor: None,
        address: None,
        action: AuditAction::AccountCredit,
        object: String::new(),
        account: None,
        details: String::new(),
        call: None,
    }
}
