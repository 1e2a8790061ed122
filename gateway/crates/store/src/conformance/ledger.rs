//! Ledger pages, verification, deletion of old records, and copies.

use std::io::Read;

use super::{ALICE, BOB, at};
use crate::{Cursor, RequestFilter, RetentionCutoff, Store};
use domain::ledger::EntryKind;
use domain::money::Nanos;

pub(super) async fn run(store: &dyn Store) {
    entries_are_paginated(store).await;
    ledger_is_consistent(store).await;
    old_records_are_deleted_in_steps_and_sums_stay(store).await;
    ledger_is_consistent(store).await;

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
    assert_eq!(report.balances.len(), 3, "Alice, Bob and the house");
}

async fn old_records_are_deleted_in_steps_and_sums_stay(store: &dyn Store) {
    let all = RequestFilter::default();
    let before = store.summarize(&all).await.unwrap();
    let entries = store.entries_before(None, None, usize::MAX).await.unwrap();
    let newest = store.newest().await.unwrap();
    let left = async || store.requests_before(&all, None, usize::MAX).await.unwrap().len();
    assert_eq!(left().await, 180);

    let nothing = RetentionCutoff { before: None, beyond: None, ended_before: at(99_999) };
    assert_eq!(store.delete_old_requests(nothing, 50).await.unwrap(), 0);
    let recent = RetentionCutoff { beyond: Some(10), ended_before: at(-9_000), ..nothing };
    assert_eq!(store.delete_old_requests(recent, 50).await.unwrap(), 0, "they ended too recently");
    // The second request is newer than the cutoff, so all later ones stay.
    let old = RetentionCutoff { before: Some(at(0)), ..nothing };
    assert_eq!(store.delete_old_requests(old, 50).await.unwrap(), 1);
    let beyond = RetentionCutoff { beyond: Some(100), ..nothing };
    assert_eq!(store.delete_old_requests(beyond, 50).await.unwrap(), 50);
    assert_eq!(store.delete_old_requests(beyond, 50).await.unwrap(), 29);
    assert_eq!(store.delete_old_requests(beyond, 50).await.unwrap(), 0);
    assert_eq!(left().await, 100);

    assert_eq!(store.newest().await.unwrap(), newest);
    assert_eq!(store.summarize(&all).await.unwrap(), before);
    assert_eq!(store.entries_before(None, None, usize::MAX).await.unwrap(), entries);
    // Remaining records are still found by time, and sums from within an hour include at least
    // those.
    for minute in (-120..4_500).step_by(35) {
        let since = RequestFilter { since: Some(at(minute)), ..all.clone() };
        let found = store.requests_before(&since, None, usize::MAX).await.unwrap();
        let kept = store.requests_before(&all, None, usize::MAX).await.unwrap();
        let expected = kept.into_iter().filter(|(_, record)| record.started_at >= at(minute));
        assert!(found.iter().cloned().eq(expected));
        let sums = store.summarize(&since).await.unwrap();
        assert!(sums.totals.requests >= found.len() as u64);
    }
    let everything = RetentionCutoff { beyond: Some(0), ..nothing };
    assert_eq!(store.delete_old_requests(everything, 1_000).await.unwrap(), 99);
    assert_eq!(store.newest().await.unwrap(), newest, "the newest record stays");
    assert_eq!(store.summarize(&all).await.unwrap(), before);
}
