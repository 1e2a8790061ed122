//! Waits for the disk.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{io, iter};

use tempfile::TempDir;

use super::super::Journal;
use super::super::sync::RETRY_INTERVAL;
use super::{Completed, Interrupted, begin, ended, found, journal, open, segments};

#[tokio::test]
async fn a_request_is_on_the_disk_when_the_wait_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (syncs, synced) = std::sync::mpsc::channel();
    let journal = journal(&dir).with_sync_by(RETRY_INTERVAL, move |files, is_new| {
        syncs.send((files.len(), is_new)).ok();
        Ok(())
    });
    let journal = journal.unwrap();
    assert!(synced.try_recv().is_err(), "there is no waiter yet");
    begin(&journal, open(1));
    journal.sync().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((1, true)), "the file and its name");
    begin(&journal, open(2));
    journal.sync().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((1, false)));
    journal.lock().rotate();
    journal.close(&ended(1)).unwrap();
    journal.sync().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((2, true)), "what came before the new segment, too");
    journal.sync().await.unwrap();
    assert_eq!(synced.try_recv(), Ok((1, false)));
}

fn failing_once(dir: &TempDir, retry: Duration) -> (Journal, Receiver<(usize, bool)>) {
    failing(1, dir, retry)
}

/// Returns a journal whose first `failures` syncs fail, and the arguments of its syncs: the number of files,
/// and whether one was new.
fn failing(failures: usize, dir: &TempDir, retry: Duration) -> (Journal, Receiver<(usize, bool)>) {
    let (syncs, synced) = channel();
    let mut failures = iter::repeat_n(io::ErrorKind::StorageFull, failures);
    let journal = journal(dir).with_sync_by(retry, move |files, is_new| {
        syncs.send((files.len(), is_new)).ok();
        failures.next().map_or(Ok(()), |kind| Err(kind.into()))
    });
    (journal.unwrap(), synced)
}

#[tokio::test]
async fn a_segment_that_the_disk_did_not_take_is_left_and_what_is_open_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, synced) = failing_once(&dir, RETRY_INTERVAL);
    begin(&journal, open(1));
    let position = journal.close(&ended(2));
    assert!(journal.sync().await.is_err());
    begin(&journal, open(3));
    assert!(journal.sync().await.is_err(), "what has ended is on no disk");
    journal.release_committed(position);
    journal.sync().await.unwrap();
    let syncs: Vec<_> = synced.try_iter().collect();
    assert_eq!(syncs, [(1, true), (2, true), (1, false)], "the one after it is trusted");
    assert_eq!(segments(&dir).len(), 1, "nothing needs the first one any more");
    assert_eq!(found(dir.path()), [(1, Interrupted), (3, Interrupted)]);
}

#[tokio::test]
async fn syncs_fail_until_there_is_another_segment() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, synced) = failing_once(&dir, Duration::ZERO);
    let elsewhere = dir.path().with_extension("away");
    begin(&journal, open(1));
    assert!(journal.sync().await.is_err());
    std::fs::rename(dir.path(), &elsewhere).unwrap();
    assert!(journal.sync().await.is_err(), "no new segment can be made");
    std::fs::rename(&elsewhere, dir.path()).unwrap();
    journal.sync().await.unwrap();
    assert_eq!(synced.try_iter().collect::<Vec<_>>(), [(1, true), (2, true)]);
}

#[tokio::test]
async fn a_failed_attempt_to_begin_a_segment_is_followed_by_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, synced) = failing_once(&dir, RETRY_INTERVAL);
    let elsewhere = dir.path().with_extension("away");
    begin(&journal, open(1));
    assert!(journal.sync().await.is_err());
    std::fs::rename(dir.path(), &elsewhere).unwrap();
    assert!(journal.sync().await.is_err(), "no new segment can be made");
    std::fs::rename(&elsewhere, dir.path()).unwrap();
    assert!(journal.sync().await.is_err(), "it is not attempted again at once");
    assert_eq!(segments(&dir).len(), 1);
    assert_eq!(synced.try_iter().count(), 1);
}

#[tokio::test]
async fn a_segment_begun_in_between_does_not_replace_the_failed_one() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = failing(2, &dir, Duration::ZERO);
    begin(&journal, open(1));
    assert!(journal.sync().await.is_err());
    assert!(journal.sync().await.is_err());
    // The next segment has no copy of the open request.
    journal.lock().rotate();
    journal.sync().await.unwrap();
    assert_eq!(found(dir.path()), [(1, Interrupted)]);
}

#[tokio::test]
async fn a_disk_that_goes_on_failing_is_not_filled_with_segments() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir)
        .with_sync_by(RETRY_INTERVAL, |_, _| Err(io::ErrorKind::StorageFull.into()))
        .unwrap();
    begin(&journal, open(1));
    for _ in 0..20 {
        assert!(journal.sync().await.is_err());
    }
    assert_eq!(segments(&dir).len(), 2, "one more, until the pause is over");
}

#[tokio::test]
async fn a_journal_on_disk_is_read_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir).with_sync().unwrap();
    assert!(journal.survives_power_cuts());
    begin(&journal, open(1));
    journal.close(&ended(2)).unwrap();
    journal.sync().await.unwrap();
    assert_eq!(found(dir.path()), [(1, Interrupted), (2, Completed)]);
}
