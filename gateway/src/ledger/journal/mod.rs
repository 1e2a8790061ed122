//! A write-ahead log of requests in local files.
//!
//! A request is in the journal before it goes upstream, and its record before the client can see the end of
//! its answer. Written entries survive the process; requests that begin or end at the same time share a
//! write. Records move from here to the store, and a segment is removed once the store has all of its
//! records. Nothing waits for the disk unless configured (`sync.rs`), so that a power cut may lose the last
//! moments. Start with [`Journal::begin`]; `replay.rs` reads the journal back.

mod charge;
mod codes;
mod entry;
mod fields;
mod frame;
mod replay;
mod segment;
mod sync;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use domain::id::RequestId;
use domain::record::RequestRecord;
pub use entry::JournaledRequest;
pub use replay::{AccountCheckError, Recovered, without_stored};
use segment::Segment;
pub use sync::SyncError;
use sync::Syncer;

/// The space that is reserved in the segment for the end of each open request, in bytes; most records take a
/// third of it.
const RESERVED_BYTES: u64 = 1024;
/// The length at which the next segment begins, in bytes.
const MAX_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
/// The age at which the next segment begins: a later start should not read what the store has had for long.
const MAX_SEGMENT_AGE: Duration = Duration::from_mins(1);
/// The largest segment that is overwritten in place once all of its requests are in the store, in bytes.
const MAX_CLEARED_BYTES: u64 = 256 * 1024;

/// The journal cannot be written; the request must not continue.
#[derive(Debug, thiserror::Error)]
#[error("the journal cannot be written")]
pub struct JournalWriteError(#[source] io::Error);

/// The segments that are kept until the store has the record of a request. It must be passed to
/// [`Journal::release_committed`] then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPosition {
    /// The segment of the last entry of the open request; the same as `ended` if it never began.
    begun: u64,
    /// The segment that was active when the request ended. The record may be in a later one, which is kept as
    /// long, because segments are removed oldest first.
    ended: u64,
}

/// The journal of one data directory.
pub struct Journal {
    state: Arc<Mutex<State>>,
    /// Whether there may be unwritten frames. It is set under the lock, so that each connection write can
    /// check it without the lock.
    has_unwritten: AtomicBool,
    /// `None` unless the journal survives power cuts.
    syncer: Option<Syncer>,
}

struct State {
    dir: PathBuf,
    active: Segment,
    since: Instant,
    /// Frames that are not in the file yet: of requests that have not been sent upstream, of ended requests
    /// whose clients have not seen the end, or of any while writes fail.
    unwritten: Vec<u8>,
    open: HashMap<RequestId, OpenEntry, RandomState>,
    /// The number of requests that each segment is kept for, including the active segment.
    needed: BTreeMap<u64, u64>,
    /// The error of the last write; `None` if it succeeded.
    failing: Option<io::ErrorKind>,
    /// Segments before the active one that may not be on the disk; `None` unless the journal survives power
    /// cuts.
    unsynced: Option<Vec<Arc<File>>>,
}

/// An open request, and the segment that holds its last entry.
struct OpenEntry {
    open: Box<JournaledRequest>,
    segment: u64,
}

// === impl Journal ===

impl Journal {
    /// Opens the journal in `dir`, which is created if necessary, and returns what an earlier process left.
    /// That must be committed before the ledger is loaded. Blocks on IO.
    ///
    /// # Errors
    /// The directory or a file in it cannot be read or written.
    pub fn open(dir: &Path) -> io::Result<(Self, Recovered)> {
        let recovered = Self::recover(dir)?;
        Ok((Self::create(dir, &recovered)?, recovered))
    }

    /// Reads what an earlier process left in `dir`, which is created if necessary. Changes no file. Blocks on
    /// IO.
    ///
    /// # Errors
    /// The directory or a file in it cannot be read.
    pub fn recover(dir: &Path) -> io::Result<Recovered> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        replay::find(dir)
    }

    /// Creates the journal that continues after what was `recovered` from `dir`. Blocks on IO.
    ///
    /// # Errors
    /// A file cannot be created.
    pub fn create(dir: &Path, recovered: &Recovered) -> io::Result<Self> {
        let number = recovered.next_segment();
        let state = State {
            dir: dir.to_owned(),
            active: Segment::create(dir, number, RESERVED_BYTES)?,
            since: Instant::now(),
            unwritten: Vec::new(),
            open: HashMap::default(),
            needed: BTreeMap::from([(number, 0)]),
            failing: None,
            unsynced: None,
        };
        let state = Arc::new(Mutex::new(state));
        let has_unwritten = AtomicBool::new(false);
        Ok(Self { state, has_unwritten, syncer: None })
    }

    /// Adds a request that is about to go upstream, and reserves space for its end. It must not be sent
    /// before [`flush`](Self::flush). Must be called again if the request goes to another deployment.
    ///
    /// # Errors
    /// The journal cannot be written: the request must not continue.
    pub fn begin(&self, open: JournaledRequest) -> Result<(), JournalWriteError> {
        let mut state = self.lock();
        let state = &mut *state;
        state.rotate_if_long();
        let earlier = state.open.get(&open.record.id).map(|open_entry| open_entry.segment);
        let kept = state.unwritten.len();
        let segment = state
            .append(&open, u64::from(earlier.is_none()) * RESERVED_BYTES)
            .map_err(JournalWriteError)?;
        // The segment of the earlier entry may be removed from now on, so this entry must be in a file.
        if earlier.is_some_and(|earlier| earlier != segment) {
            state.write_or_keep(kept).map_err(JournalWriteError)?;
        }
        self.has_unwritten.store(true, Ordering::Release);
        let open_entry = OpenEntry { segment, open: Box::new(open) };
        state.need(segment);
        if let Some(before) = state.open.insert(open_entry.open.record.id, open_entry) {
            state.release(before.segment);
        }
        Ok(())
    }

    /// Writes all requests that have begun or ended and are not written yet.
    ///
    /// # Errors
    /// They cannot be written: requests that have begun must not continue.
    pub fn flush(&self) -> Result<(), JournalWriteError> {
        if !self.has_unwritten.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.lock();
        let written = state.write();
        self.has_unwritten.store(written.is_err(), Ordering::Release);
        written.map(drop).map_err(JournalWriteError)
    }

    /// Updates an open request. A failure is no reason to stop: after a crash, the earlier entry counts.
    pub fn update(&self, id: RequestId, change: impl FnOnce(&mut JournaledRequest)) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(open_entry) = state.open.get_mut(&id) else { return };
        change(&mut open_entry.open);
        let before = state.unwritten.len();
        frame::append(&mut state.unwritten, |out| entry::put_open(&open_entry.open, out));
        if let Ok(segment) = state.write_or_keep(before) {
            state.move_entry(id, segment);
        }
    }

    /// Adds the record of a request; its client must not see the end before [`flush`](Self::flush). The
    /// record of a request that never began is written at once or not at all, because there may be any number
    /// of those. Returns the position that must be passed to [`release_committed`](Self::release_committed)
    /// once the store has the record.
    pub fn close(&self, record: &RequestRecord) -> Option<JournalPosition> {
        let mut state = self.lock();
        let state = &mut *state;
        state.rotate_if_long();
        let opened = state.open.remove(&record.id).map(|open_entry| open_entry.segment);
        let before = state.unwritten.len();
        frame::append(&mut state.unwritten, |out| entry::put_closed(record, out));
        self.has_unwritten.store(true, Ordering::Release);
        let ended = match opened {
            Some(_) => state.active.number(),
            None => state.write_or_keep(before).ok()?,
        };
        if opened != Some(ended) {
            state.need(ended);
        }
        Some(JournalPosition { begun: opened.unwrap_or(ended), ended })
    }

    /// Returns why the journal cannot be written; `None` if it can. If the last write failed, this tries again
    /// first, as the next [`begin`](Self::begin) would: without requests, nothing else does.
    pub fn write_failure(&self) -> Option<io::ErrorKind> {
        let mut state = self.lock();
        state.failing?;
        let written = state.make_room(RESERVED_BYTES).and_then(|()| state.active.probe());
        match written {
            Ok(()) if !state.unwritten.is_empty() => _ = state.write(),
            written => state.note(&written),
        }
        self.has_unwritten.store(!state.unwritten.is_empty(), Ordering::Release);
        state.failing
    }

    /// Returns whether a request has begun and not ended.
    pub fn is_open(&self, id: RequestId) -> bool {
        self.lock().open.contains_key(&id)
    }

    /// Returns the result of `look` for each open request.
    pub fn open_requests<T>(&self, mut look: impl FnMut(&JournaledRequest) -> T) -> Vec<T> {
        let state = self.lock();
        state.open.values().map(|open_entry| look(&open_entry.open)).collect()
    }

    /// Records that the store has the records at `positions`, and removes segments that are not needed any
    /// more.
    pub fn release_committed(&self, positions: impl IntoIterator<Item = JournalPosition>) {
        let unneeded = {
            let mut state = self.lock();
            positions
                .into_iter()
                .flat_map(JournalPosition::segments)
                .for_each(|segment| state.release(segment));
            state.removable_segments()
        };
        for path in unneeded {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove a journal file");
            }
        }
    }

    /// Moves the directory to `path`, which must not exist and be on the same file system. Requests go on being
    /// written to it. Blocks on IO.
    ///
    /// # Errors
    /// The directory cannot be moved, and is used where it is.
    pub fn move_to(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        std::fs::rename(&state.dir, path)?;
        path.clone_into(&mut state.dir);
        // Without this, a power cut may undo the move, after which a start finds the journal where it was.
        let synced = path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all());
        if let Err(error) = synced {
            tracing::warn!(%error, "cannot sync the directory of a moved journal");
        }
        Ok(())
    }

    /// Reads the records of ended requests in `dir`, which another process may be writing. Blocks on IO.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read_closed(dir: &Path) -> io::Result<Vec<RequestRecord>> {
        replay::read_closed(dir)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> PathBuf {
        self.lock().dir.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl JournalPosition ===

impl JournalPosition {
    /// Returns each segment once.
    fn segments(self) -> impl Iterator<Item = u64> {
        let Self { begun, ended } = self;
        std::iter::once(begun).chain((ended != begun).then_some(ended))
    }
}

// === impl State ===

impl State {
    /// Appends the frame of a request to the unwritten ones and returns its segment. Ensures that there is
    /// space for it and for `reserve` more bytes.
    fn append(&mut self, open: &JournaledRequest, reserve: u64) -> io::Result<u64> {
        let before = self.unwritten.len();
        frame::append(&mut self.unwritten, |out| entry::put_open(open, out));
        let mut entered = self.make_room(reserve);
        // While writes fail, a request begins only if this write succeeds.
        if self.failing.is_some() && entered.is_ok() {
            entered = self.write().map(drop);
        }
        if entered.is_err() {
            self.unwritten.truncate(before);
            self.note(&entered);
        }
        entered.map(|()| self.active.number())
    }

    /// Writes the unwritten frames; on failure, keeps the first `kept` bytes for the next attempt.
    fn write_or_keep(&mut self, kept: usize) -> io::Result<u64> {
        let written = self.write();
        if written.is_err() {
            self.unwritten.truncate(kept);
        }
        written
    }

    /// Writes the unwritten frames and returns their segment.
    fn write(&mut self) -> io::Result<u64> {
        if self.unwritten.is_empty() {
            return Ok(self.active.number());
        }
        let written = self.make_room(0).and_then(|()| self.active.write(&self.unwritten));
        self.note(&written);
        written?;
        self.unwritten.clear();
        Ok(self.active.number())
    }

    /// Ensures that there is space for the unwritten frames, for the ends of all open requests and for
    /// `reserve` more bytes.
    fn make_room(&mut self, reserve: u64) -> io::Result<()> {
        let reserved = self.open.len() as u64 * RESERVED_BYTES + reserve;
        self.active.make_room(self.unwritten.len() as u64 + reserved)
    }

    fn need(&mut self, segment: u64) {
        *self.needed.entry(segment).or_default() += 1;
    }

    fn release(&mut self, segment: u64) {
        if let Some(count) = self.needed.get_mut(&segment) {
            *count = count.saturating_sub(1);
        }
    }

    fn move_entry(&mut self, id: RequestId, to: u64) {
        let Some(open_entry) = self.open.get_mut(&id) else { return };
        let from = std::mem::replace(&mut open_entry.segment, to);
        if from != to {
            self.need(to);
            self.release(from);
        }
    }

    /// Logs when writing begins to fail and when it works again.
    fn note(&mut self, written: &io::Result<()>) {
        match written {
            Err(error) if self.failing.is_none() => {
                tracing::error!(event = "journal_unwritable", %error, "cannot write the journal; no request is let in until it works again");
            }
            Ok(()) if self.failing.is_some() => {
                tracing::info!(event = "journal_writable", "the journal is written again");
            }
            _ => {}
        }
        self.failing = written.as_ref().err().map(io::Error::kind);
    }

    fn rotate_if_long(&mut self) {
        if self.active.len() >= MAX_SEGMENT_BYTES {
            self.rotate();
        }
    }

    /// Begins the next segment. Open requests whose last entries are in segments before the current one are
    /// copied into the next one, so that a long stream does not keep all segments since its beginning.
    fn rotate(&mut self) {
        if let Err(error) = self.begin_segment(self.active.number()) {
            // The old segment is used for longer.
            self.note(&Err(error));
        }
    }

    /// Begins the next segment, and writes into it the open requests whose last entries are in segments
    /// before `until`.
    fn begin_segment(&mut self, until: u64) -> io::Result<()> {
        let next = self.active.number() + 1;
        let room = self.open.len() as u64 * RESERVED_BYTES * 2 + self.unwritten.len() as u64;
        let begun = Segment::create(&self.dir, next, room)?;
        // What the old segment does not accept goes into the new one.
        _ = self.write();
        let full = std::mem::replace(&mut self.active, begun);
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.push(full.file());
        }
        self.since = Instant::now();
        self.needed.insert(next, 0);
        let old = self.open.iter().filter(|(_, open_entry)| open_entry.segment < until);
        let kept = self.unwritten.len();
        let mut moved = Vec::new();
        for (id, open_entry) in old {
            frame::append(&mut self.unwritten, |out| entry::put_open(&open_entry.open, out));
            moved.push(*id);
        }
        let segment = self.write_or_keep(kept)?;
        for id in moved {
            self.move_entry(id, segment);
        }
        Ok(())
    }

    /// Returns the paths of the segments that may be removed: the oldest ones that nothing needs.
    fn removable_segments(&mut self) -> Vec<PathBuf> {
        let idle = self.needed.values().all(|&count| count == 0);
        if idle {
            // These are ends that the store has by now.
            self.unwritten.clear();
        }
        if idle && (1..=MAX_CLEARED_BYTES).contains(&self.active.len()) {
            // A partial clearing can leave zeros in front of frames, which a reader reports as damage, so that
            // segment is not used again.
            let until = self.active.number();
            let renewed = self.active.clear().or_else(|error| {
                tracing::warn!(%error, "cannot clear a journal file; beginning the next one");
                self.begin_segment(until)
            });
            self.note(&renewed);
        } else if self.active.len() > 0 && (idle || self.since.elapsed() >= MAX_SEGMENT_AGE) {
            self.rotate();
        }
        let active = self.active.number();
        let unneeded: Vec<_> = self
            .needed
            .iter()
            .map_while(|(&segment, &count)| (segment < active && count == 0).then_some(segment))
            .collect();
        for segment in &unneeded {
            self.needed.remove(segment);
        }
        unneeded.into_iter().map(|segment| segment::path(&self.dir, segment)).collect()
    }
}
