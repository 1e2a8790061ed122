//! Ledger pages, verification, deletion of old records, and copies.

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::requests::check_summary;
use super::{ALICE, BOB, at, batch};
use crate::{Cursor, RequestFilter, RetentionCutoff, Store, StoreError, TimeUnit};
use domain::id::KeyId;
use domain::ledger::EntryKind;
use domain::money::Nanos;
use domain::record::RequestRecord;

pub(super) async fn run(store: &dyn Store) {
    entries_are_paginated(store).await;
    ledger_is_consistent(store).await;
    old_records_are_deleted_in_steps_and_sums_stay(store).await;
    ledger_is_consistent(store).await;
    hours_and_days_before_1970_are_rounded_down(store).await;

    assert_eq!(store.check_integrity(at(5_000)).await.unwrap(), [""; 0]);
    if let Err(error) = store.check_copyable() {
        assert!(matches!(error, StoreError::Unsupported(_)), "{error}");
        assert_eq!(store.copy().await.unwrap_err().to_string(), error.to_string());
        return;
    }
    let mut copy = store.copy().await.unwrap();
    let mut bytes = Vec::new();
    copy.file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, copy.bytes);
}

async fn entries_are_paginated(store: &dyn Store) {
    for account in [None, Some(ALICE), Some(BOB)] {
        let all = store.entries_before(account, None, usize::MAX).await.unwrap();
        assert!(all.is_sorted_by(|(a, _), (b, _)| a > b));
        let mut pages = Vec::new();
        let mut before = None;
        loop {
            let page = store.entries_before(account, before, 7).await.unwrap();
            assert!(page.len() <= 7);
            let Some((last, _)) = page.last() else { break };
            before = Some(*last);
            pages.extend(page);
        }
        assert_eq!(pages, all);
        let Some(account) = account else { continue };
        assert!(all.iter().all(|(_, entry)| entry.account == account));
        let sum: Nanos = all.iter().map(|(_, entry)| entry.amount).sum();
        assert_eq!(store.balance(account).await.unwrap(), sum);
    }
    let before_all = store.entries_before(None, Some(Cursor(i64::MIN)), 7).await.unwrap();
    assert_eq!(before_all, []);
    let newest = store.entries_before(Some(BOB), None, 2).await.unwrap();
    let kinds = newest.iter().map(|(_, entry)| entry.kind.clone());
    let expected = [
        EntryKind::Correction("double booking".into()),
        EntryKind::Credit("refund of order 7".into()),
    ];
    assert!(kinds.eq(expected));
}

async fn ledger_is_consistent(store: &dyn Store) {
    let report = store.verify_ledger().await.unwrap();
    assert!(report.is_consistent(), "{:?}", report.differences);
    let end = store.newest().await.unwrap();
    let all = RequestFilter::default();
    assert_eq!(report.requests, store.count_requests(&all, Cursor(0), end).await.unwrap());
    let entries = store.entries_before(None, None, usize::MAX).await.unwrap();
    assert_eq!(report.entries, entries.len() as u64);
    assert_eq!(report.balances.len(), 3, "Alice, Bob and the operator");
}

async fn old_records_are_deleted_in_steps_and_sums_stay(store: &dyn Store) {
    let all = RequestFilter::default();
    let before = store.summarize(&all, TimeUnit::Day).await.unwrap();
    let entries = store.entries_before(None, None, usize::MAX).await.unwrap();
    let newest = store.newest().await.unwrap();
    let left = async || store.requests_before(&all, None, usize::MAX).await.unwrap().len();
    assert_eq!(left().await, 180);
    let records = store.requests_before(&all, None, usize::MAX).await.unwrap();
    let records: Vec<_> = records.into_iter().rev().map(|(_, record)| record).collect();

    let nothing = RetentionCutoff { before: None, beyond: None, ended_before: at(99_999) };
    assert_eq!(store.delete_old_requests(nothing, 50).await.unwrap(), 0);
    let recent = RetentionCutoff { beyond: Some(10), ended_before: at(-9_000), ..nothing };
    assert_eq!(store.delete_old_requests(recent, 50).await.unwrap(), 0, "they ended too recently");
    let end = records[0].started_at + records[0].duration;
    let ending = RetentionCutoff { beyond: Some(10), ended_before: end, ..nothing };
    assert_eq!(store.delete_old_requests(ending, 50).await.unwrap(), 0, "it ended at that time");
    // The second request is newer than the cutoff, so all later ones stay.
    let old = RetentionCutoff { before: Some(at(0)), ..nothing };
    assert_eq!(store.delete_old_requests(old, 50).await.unwrap(), 1);
    let beyond = RetentionCutoff { beyond: Some(100), ..nothing };
    assert_eq!(store.delete_old_requests(beyond, 50).await.unwrap(), 50);
    assert_eq!(store.delete_old_requests(beyond, 50).await.unwrap(), 29);
    assert_eq!(store.delete_old_requests(beyond, 50).await.unwrap(), 0);
    assert_eq!(left().await, 100);

    assert_eq!(store.newest().await.unwrap(), newest);
    assert_eq!(store.summarize(&all, TimeUnit::Day).await.unwrap(), before);
    assert_eq!(store.entries_before(None, None, usize::MAX).await.unwrap(), entries);
    remaining_records_are_found_by_time(store).await;
    hours_with_deleted_records_are_not_divided(store, &records).await;
    let everything = RetentionCutoff { beyond: Some(0), ..nothing };
    assert_eq!(store.delete_old_requests(everything, 1_000).await.unwrap(), 99);
    assert_eq!(store.newest().await.unwrap(), newest, "the newest record stays");
    assert_eq!(store.summarize(&all, TimeUnit::Day).await.unwrap(), before);
}

async fn remaining_records_are_found_by_time(store: &dyn Store) {
    let all = RequestFilter::default();
    for minute in (-120..4_500).step_by(35) {
        let since = RequestFilter { since: Some(at(minute)), ..all.clone() };
        let found = store.requests_before(&since, None, usize::MAX).await.unwrap();
        let kept = store.requests_before(&all, None, usize::MAX).await.unwrap();
        let expected = kept.into_iter().filter(|(_, record)| record.started_at >= at(minute));
        assert!(found.iter().cloned().eq(expected));
    }
}

/// The first 80 of `records` were deleted. The sums of other hours are exact at any boundary, and
/// those of any hour at its own boundaries.
async fn hours_with_deleted_records_are_not_divided(store: &dyn Store, records: &[RequestRecord]) {
    let hour = |time: Timestamp| time.as_second().div_euclid(3_600);
    let deleted: HashSet<_> = records[..80].iter().map(|record| hour(record.started_at)).collect();
    let is_counted = |record: &RequestRecord, since: Timestamp, until: Option<Timestamp>| {
        let number = hour(record.started_at);
        let (mut first, mut end) = (record.started_at, record.started_at);
        if deleted.contains(&number) {
            let start = Timestamp::from_second(number * 3_600).unwrap();
            (first, end) = (start, start + SignedDuration::from_micros(3_599_999_999));
        }
        until.is_none_or(|until| since < until && first < until) && end >= since
    };
    for minute in (-120..4_500).step_by(35) {
        for length in [None, Some(-5), Some(0), Some(25), Some(60), Some(90), Some(1_500)] {
            let (since, until) = (at(minute), length.map(|length| at(minute + length)));
            let counted = records.iter().filter(|record| is_counted(record, since, until));
            let counted: Vec<_> = counted.cloned().collect();
            let filter = RequestFilter { since: Some(since), until, ..RequestFilter::default() };
            check_summary(store, &filter, &counted).await;
            let counted: Vec<_> = counted.into_iter().filter(|it| it.account == ALICE).collect();
            check_summary(store, &RequestFilter { account: Some(ALICE), ..filter }, &counted).await;
        }
    }
}

/// Records of clocks that were wrong.
async fn hours_and_days_before_1970_are_rounded_down(store: &dyn Store) {
    let before = |hours| Timestamp::UNIX_EPOCH - SignedDuration::from_hours(hours);
    let mut records = batch(7_000..7_004);
    for (record, hours) in records.iter_mut().zip([50, 25, 24, 1]) {
        record.account = ALICE;
        record.key = KeyId::new("a1");
        record.started_at = before(hours) + SignedDuration::from_mins(30);
    }
    store.commit(Arc::new(records.clone())).await.unwrap();
    ledger_is_consistent(store).await;
    for since in [None, Some(before(30)), Some(before(24))] {
        let until = Some(Timestamp::UNIX_EPOCH);
        let filter = RequestFilter { since, until, ..RequestFilter::default() };
        let expected = records.iter().filter(|it| since.is_none_or(|since| it.started_at >= since));
        check_summary(store, &filter, &expected.cloned().collect::<Vec<_>>()).await;
    }
}
