//! Replays what an earlier process left in the journal into the store.
//!
//! Replay is idempotent: the store skips records that it has, and a file is removed only after all of it was
//! stored. A file that cannot be read to its end is kept.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::charge;
use super::entry::{self, JournalEntry, JournaledRequest};
use super::frame::{self, NextFrame};
use super::segment::{self, HEADER, SegmentFile};
use domain::id::RequestId;
use domain::record::RequestRecord;
use store::{Allocations, Store, StoreError};

const MAX_BATCH: usize = 4_096;

/// The contents of a journal; [`Recovered::commit`] writes them into the store.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Requests that had ended, in the order of the journal.
    closed: Vec<RequestRecord>,
    /// Requests that had not ended, with their charges before the balance is considered.
    open: Vec<RequestRecord>,
    read: Vec<PathBuf>,
    damaged: Vec<PathBuf>,
    /// The number of the next segment.
    next_segment: u64,
}

/// Why the journal is not replayed into this store.
#[derive(Debug, thiserror::Error)]
pub enum AccountCheckError {
    /// None of its accounts is in the store. An account is stored before its first request, so the database
    /// of a journal knows its accounts.
    #[error(
        "the database has none of the accounts whose {requests} requests are in the journal: the two are \
         not of the same service; put back the database that belongs to the journal, or move the journal \
         away to start without these requests"
    )]
    UnknownAccounts {
        /// The number of requests in the journal.
        requests: usize,
    },
    /// The store failed to return its accounts.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state of a request while the journal is read.
enum ReplayState {
    Open(Box<JournaledRequest>),
    Closed(Box<RequestRecord>),
}

/// Reads all segments in `dir`.
pub(super) fn read(dir: &Path, found: &[SegmentFile]) -> io::Result<Recovered> {
    let mut recovered = Recovered::default();
    let mut order: Vec<RequestId> = Vec::new();
    let mut known: HashMap<RequestId, ReplayState> = HashMap::new();
    let mut died_at: Option<Timestamp> = None;
    for SegmentFile { path, .. } in found {
        let bytes = std::fs::read(path)?;
        let modified = std::fs::metadata(path)?.modified()?;
        died_at = died_at.max(Timestamp::try_from(modified).ok());
        let mut take = |entry| {
            let (id, now) = match entry {
                JournalEntry::Open(open) => (open.record.id, ReplayState::Open(open)),
                JournalEntry::Closed(record) => (record.id, ReplayState::Closed(record)),
            };
            match known.get_mut(&id) {
                None => {
                    order.push(id);
                    known.insert(id, now);
                }
                // An open entry never replaces a closed one.
                Some(ReplayState::Closed(_)) => {}
                Some(before) => *before = now,
            }
        };
        let files = if read_segment(&bytes, path, &mut take) {
            &mut recovered.read
        } else {
            &mut recovered.damaged
        };
        files.push(path.clone());
    }
    for id in order {
        match known.remove(&id) {
            Some(ReplayState::Closed(record)) => recovered.closed.push(*record),
            Some(ReplayState::Open(open)) => recovered.open.push(open.into_record(died_at)),
            None => {}
        }
    }
    let (closed, open) = (recovered.closed.len(), recovered.open.len());
    if closed + open > 0 {
        tracing::info!(event = "journal_replayed", closed, open, dir = %dir.display(), "replaying the journal");
    }
    Ok(recovered)
}

/// Passes each entry to `take`. Returns whether all could be read, except for a partial last one.
fn read_segment(bytes: &[u8], path: &Path, take: &mut impl FnMut(JournalEntry)) -> bool {
    let Some(mut rest) = bytes.strip_prefix(&HEADER) else {
        // A process that died while creating the segment leaves it empty or with a partial header.
        if HEADER.starts_with(bytes) || bytes.iter().all(|&byte| byte == 0) {
            return true;
        }
        tracing::error!(path = %path.display(), "this is no journal of this version; it is kept aside");
        return false;
    };
    let mut unreadable = 0_u64;
    let whole = loop {
        match frame::next(&mut rest) {
            NextFrame::Entry(bytes) => match entry::read(bytes) {
                Ok(entry) => take(entry),
                Err(error) => {
                    unreadable += 1;
                    tracing::error!(path = %path.display(), %error, "an entry cannot be read");
                }
            },
            NextFrame::Damaged => unreadable += 1,
            NextFrame::End => break true,
            NextFrame::Torn => {
                tracing::info!(path = %path.display(), "the last entry was not written to its end");
                break true;
            }
            NextFrame::Garbage => break false,
        }
    };
    if unreadable > 0 || !whole {
        tracing::error!(
            path = %path.display(),
            unreadable,
            whole,
            "part of the journal is damaged; the file is kept aside"
        );
    }
    whole && unreadable == 0
}

impl Recovered {
    /// Returns the records, those of open requests last.
    pub fn records(&self) -> impl Iterator<Item = &RequestRecord> {
        self.closed.iter().chain(&self.open)
    }

    /// Returns the number of the segment after those that were read.
    pub(super) fn next_segment(&self) -> u64 {
        self.next_segment
    }

    /// Returns whether a segment could not be read to its end.
    pub fn has_damage(&self) -> bool {
        !self.damaged.is_empty()
    }

    /// Checks by its accounts that the journal belongs to `store`.
    ///
    /// # Errors
    /// [`AccountCheckError::UnknownAccounts`] if the store knows the account of no request in it.
    pub async fn check_accounts(&self, store: &dyn Store) -> Result<(), AccountCheckError> {
        let requests = self.records().count();
        if requests == 0 {
            return Ok(());
        }
        let accounts = store.load().await?.accounts;
        let known: HashSet<_> = accounts.iter().map(|account| account.id).collect();
        let unknown = self.records().filter(|record| !known.contains(&record.account)).count();
        if unknown == requests {
            return Err(AccountCheckError::UnknownAccounts { requests });
        }
        if unknown > 0 {
            // A database that was restored from a backup lacks newer accounts.
            tracing::warn!(
                unknown,
                requests,
                "the journal has requests of accounts that the database does not have"
            );
        }
        Ok(())
    }

    /// Returns the records, those of open requests last. Changes no file.
    pub fn into_records(self) -> Vec<RequestRecord> {
        self.closed.into_iter().chain(self.open).collect()
    }

    /// Adds what was left in another journal, so that all requests that ended are charged before those that had not.
    pub fn append(&mut self, other: Self) {
        self.closed.extend(other.closed);
        self.open.extend(other.open);
        self.read.extend(other.read);
        self.damaged.extend(other.damaged);
    }

    /// Writes everything into `store`, then removes the files. If several gateways share the balances, a request is
    /// charged to the `allocations` of this one.
    ///
    /// # Errors
    /// The store fails; the files are then unchanged.
    pub async fn commit(
        self,
        store: &dyn Store,
        allocations: Option<&dyn Allocations>,
    ) -> Result<(), StoreError> {
        let Self { closed, open, read, damaged, next_segment: _ } = self;
        commit(store, closed).await?;
        // An earlier replay may have stored some of them and not removed the files. Their charges are in the
        // stored balances already.
        let mut open = without_stored(store, open).await?;
        charge::charge(store, allocations, &mut open).await?;
        commit(store, open).await?;
        for path in read {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove a journal file");
            }
        }
        for path in damaged {
            let aside = path.with_extension("damaged");
            if let Err(error) = std::fs::rename(&path, &aside) {
                tracing::warn!(path = %path.display(), %error, "cannot set a journal file aside");
            }
        }
        Ok(())
    }
}

/// Returns the records that `store` does not have.
///
/// # Errors
/// The store fails.
pub async fn without_stored(
    store: &dyn Store,
    records: Vec<RequestRecord>,
) -> Result<Vec<RequestRecord>, StoreError> {
    let mut missing = Vec::with_capacity(records.len());
    for record in records {
        if store.find_request(record.id).await?.is_none() {
            missing.push(record);
        }
    }
    Ok(missing)
}

async fn commit(store: &dyn Store, mut records: Vec<RequestRecord>) -> Result<(), StoreError> {
    while !records.is_empty() {
        let rest = records.split_off(records.len().min(MAX_BATCH));
        store.commit(Arc::new(records)).await?;
        records = rest;
    }
    Ok(())
}

/// Reads the records of closed requests in `dir`. What another process is writing is left out.
pub(super) fn read_closed(dir: &Path) -> io::Result<Vec<RequestRecord>> {
    let mut closed = Vec::new();
    for SegmentFile { path, .. } in segment::find_all(dir)? {
        let bytes = std::fs::read(path)?;
        let mut rest = bytes.strip_prefix(&HEADER).unwrap_or_default();
        while let NextFrame::Entry(bytes) = frame::next(&mut rest) {
            if let Ok(JournalEntry::Closed(record)) = entry::read(bytes) {
                closed.push(*record);
            }
        }
    }
    Ok(closed)
}

/// Reads the journal in `dir`.
pub(super) fn find(dir: &Path) -> io::Result<Recovered> {
    let found = segment::find_all(dir)?;
    let next_segment = found.last().map_or(0, |last| last.number.saturating_add(1));
    Ok(Recovered { next_segment, ..read(dir, &found)? })
}
