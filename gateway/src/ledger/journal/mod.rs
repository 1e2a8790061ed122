//! The journal: what is known of every request, in a local file before anybody acts on it.
//!
//! A request is in it before it goes upstream, and its record before the client can see the end of
//! its answer. What is written outlives the process; requests that begin or end at once share a write. Records
//! go on from here into the store, and a segment is removed once the store has all that it holds. Nothing waits
//! for the disk, so that a power cut may take the last moments, unless it is asked to (`power.rs`). Start with
//! [`Journal::begin`]; `replay.rs` is the way back.

mod charge;
mod codes;
mod entry;
mod fields;
mod frame;
mod power;
mod replay;
mod segment;
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
pub use entry::Open;
use power::Syncer;
pub use power::Unsynced;
pub use replay::{ForeignJournal, Recovered};
use segment::Segment;

/// Kept free in the segment for the end of each open request; most records take a third of it.
const RESERVE: u64 = 1024;
/// A segment that is this long is followed by the next one.
const MAX_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
/// So is one that is this old: what the store has long had must not be found by a later start.
const OLDEST_SEGMENT: Duration = Duration::from_mins(1);
/// Up to this length a segment whose requests are all in the store is written over.
const CHEAP_TO_CLEAR: u64 = 256 * 1024;

/// Why a request is not in the journal, and must not go on.
#[derive(Debug, thiserror::Error)]
#[error("the journal cannot be written")]
pub struct Unwritten(#[source] io::Error);

/// The segments that hold a request's beginning and its record, until the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    begun: u64,
    ended: u64,
}

/// The journal of one data directory.
pub struct Journal {
    dir: PathBuf,
    state: Arc<Mutex<State>>,
    /// Whether there may be unwritten frames. Set under the lock, so that it need not be taken to see that
    /// there are none: every message asks.
    has_unwritten: AtomicBool,
    /// `None` if nobody waits for the disk.
    syncer: Option<Syncer>,
}

struct State {
    active: Segment,
    since: Instant,
    /// Frames that are not in the file: of requests that have not gone upstream yet, and of those that have
    /// ended and whose clients do not know it yet, or while it could not be written.
    unwritten: Vec<u8>,
    open: HashMap<RequestId, Anchored, RandomState>,
    /// How many requests each segment is kept for, the active one included.
    needed: BTreeMap<u64, u64>,
    /// Why the last write failed; `None` if it did not.
    failing: Option<io::ErrorKind>,
    /// Segments before the active one that the disk may not have; `None` if nobody waits for it.
    unsynced: Option<Vec<Arc<File>>>,
}

/// An open request, and the segment that holds its last entry.
struct Anchored {
    open: Box<Open>,
    segment: u64,
}

// === impl Journal ===

impl Journal {
    /// Opens the journal in `dir`, made as needed, and returns what an earlier process left there,
    /// which is to be committed before the ledger is loaded. Blocks.
    ///
    /// # Errors
    /// The directory or a file in it cannot be read or written.
    pub fn open(dir: &Path) -> io::Result<(Self, Recovered)> {
        let recovered = Self::recover(dir)?;
        Ok((Self::create(dir, &recovered)?, recovered))
    }

    /// Reads what an earlier process left in `dir`, which is made as needed. Changes no file. Blocks.
    ///
    /// # Errors
    /// The directory or a file in it cannot be read.
    pub fn recover(dir: &Path) -> io::Result<Recovered> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        replay::find(dir)
    }

    /// Begins the journal behind what was `recovered` from `dir`. Blocks.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(dir: &Path, recovered: &Recovered) -> io::Result<Self> {
        let number = recovered.next_segment();
        let state = State {
            active: Segment::create(dir, number, RESERVE)?,
            since: Instant::now(),
            unwritten: Vec::new(),
            open: HashMap::default(),
            needed: BTreeMap::from([(number, 0)]),
            failing: None,
            unsynced: None,
        };
        let state = Arc::new(Mutex::new(state));
        let has_unwritten = AtomicBool::new(false);
        Ok(Self { dir: dir.to_owned(), state, has_unwritten, syncer: None })
    }

    /// Takes in a request that is about to go upstream, and makes sure that it and its end will find
    /// room. It must not go before [`flush`](Self::flush). To be called again when it goes to
    /// another deployment.
    ///
    /// # Errors
    /// It could not be written: the request must not go on.
    pub fn begin(&self, open: Open) -> Result<(), Unwritten> {
        let mut state = self.lock();
        let state = &mut *state;
        state.rotate_if_long(&self.dir);
        let earlier = state.open.get(&open.record.id).map(|anchored| anchored.segment);
        let kept = state.unwritten.len();
        let segment =
            state.enter(&open, u64::from(earlier.is_none()) * RESERVE).map_err(Unwritten)?;
        // the segment of the earlier entry may be removed from here on, so this one must be in a file
        if earlier.is_some_and(|earlier| earlier != segment) {
            state.write_or_keep(kept).map_err(Unwritten)?;
        }
        self.has_unwritten.store(true, Ordering::Release);
        let anchored = Anchored { segment, open: Box::new(open) };
        state.need(segment);
        if let Some(before) = state.open.insert(anchored.open.record.id, anchored) {
            state.release(before.segment);
        }
        Ok(())
    }

    /// Writes all requests that have begun or ended, as far as nobody has.
    ///
    /// # Errors
    /// They cannot be written: those that have begun must not go on.
    pub fn flush(&self) -> Result<(), Unwritten> {
        if !self.has_unwritten.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.lock();
        let written = state.write();
        self.has_unwritten.store(written.is_err(), Ordering::Release);
        written.map(drop).map_err(Unwritten)
    }

    /// Writes what has become known of an open request. That it cannot be written is no reason to
    /// stop: then a crash leaves what was known before.
    pub fn update(&self, id: RequestId, change: impl FnOnce(&mut Open)) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(anchored) = state.open.get_mut(&id) else { return };
        change(&mut anchored.open);
        let before = state.unwritten.len();
        frame::append(&mut state.unwritten, |out| entry::put_open(&anchored.open, out));
        if let Ok(segment) = state.write_or_keep(before) {
            state.move_anchor(id, segment);
        }
    }

    /// Takes in a request's record; its client must not see the end before
    /// [`flush`](Self::flush). That of a request that never began is written at once, or not at
    /// all: there may be any number of those. Returns what must stay until the store has the record, for
    /// [`committed`](Self::committed).
    pub fn close(&self, record: &RequestRecord) -> Option<Place> {
        let mut state = self.lock();
        let state = &mut *state;
        state.rotate_if_long(&self.dir);
        let opened = state.open.remove(&record.id).map(|anchored| anchored.segment);
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
        Some(Place { begun: opened.unwrap_or(ended), ended })
    }

    /// Returns why the journal cannot be written. Where the last write failed, it is tried again first: while
    /// no requests are sent here, nothing else does.
    pub fn write_failure(&self) -> Option<io::ErrorKind> {
        let mut state = self.lock();
        state.failing?;
        let written = state.make_room(RESERVE).and_then(|()| state.active.probe());
        match written {
            Ok(()) if !state.unwritten.is_empty() => _ = state.write(),
            written => state.note(&written),
        }
        self.has_unwritten.store(!state.unwritten.is_empty(), Ordering::Release);
        state.failing
    }

    /// Whether a request went upstream and has not ended.
    pub fn is_open(&self, id: RequestId) -> bool {
        self.lock().open.contains_key(&id)
    }

    /// Returns what `look` takes of every open request.
    pub fn open_requests<T>(&self, mut look: impl FnMut(&RequestRecord) -> T) -> Vec<T> {
        let state = self.lock();
        state.open.values().map(|anchored| look(&anchored.open.record)).collect()
    }

    /// Learns that the records at `places` are in the store, and removes what is not needed any more.
    pub fn committed(&self, places: impl IntoIterator<Item = Place>) {
        let unneeded = {
            let mut state = self.lock();
            places.into_iter().flat_map(Place::segments).for_each(|segment| state.release(segment));
            state.tidy(&self.dir)
        };
        for segment in unneeded {
            let path = segment::path(&self.dir, segment);
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove a journal file");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Place ===

impl Place {
    /// Each of them once.
    fn segments(self) -> impl Iterator<Item = u64> {
        let Self { begun, ended } = self;
        std::iter::once(begun).chain((ended != begun).then_some(ended))
    }
}

// === impl State ===

impl State {
    /// Adds the frame of a request to those that are to be written, and returns to which segment; room is
    /// made for it and for `reserve` more bytes.
    fn enter(&mut self, open: &Open, reserve: u64) -> io::Result<u64> {
        let before = self.unwritten.len();
        frame::append(&mut self.unwritten, |out| entry::put_open(open, out));
        let mut entered = self.make_room(reserve);
        // whether writing works again is found out here: nothing else is let in
        if self.failing.is_some() && entered.is_ok() {
            entered = self.write().map(drop);
        }
        if entered.is_err() {
            self.unwritten.truncate(before);
            self.note(&entered);
        }
        entered.map(|()| self.active.number())
    }

    /// Writes what is unwritten; if that fails, its first `kept` bytes will be tried again.
    fn write_or_keep(&mut self, kept: usize) -> io::Result<u64> {
        let written = self.write();
        if written.is_err() {
            self.unwritten.truncate(kept);
        }
        written
    }

    /// Writes what is unwritten, and returns to which segment.
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

    /// Makes sure that there is room for what is unwritten, for the ends of all open requests and for
    /// `reserve` more bytes.
    fn make_room(&mut self, reserve: u64) -> io::Result<()> {
        let reserved = self.open.len() as u64 * RESERVE + reserve;
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

    fn move_anchor(&mut self, id: RequestId, to: u64) {
        let Some(anchored) = self.open.get_mut(&id) else { return };
        let from = std::mem::replace(&mut anchored.segment, to);
        if from != to {
            self.need(to);
            self.release(from);
        }
    }

    /// Logs when writing begins to fail, and when it works again.
    fn note(&mut self, written: &io::Result<()>) {
        match written {
            Err(error) if self.failing.is_none() => {
                tracing::error!(%error, "cannot write the journal; no request is let in until it works again");
            }
            Ok(()) if self.failing.is_some() => tracing::info!("the journal is written again"),
            _ => {}
        }
        self.failing = written.as_ref().err().map(io::Error::kind);
    }

    fn rotate_if_long(&mut self, dir: &Path) {
        if self.active.len() >= MAX_SEGMENT_BYTES {
            self.rotate(dir);
        }
    }

    /// Starts the next segment. Requests that were open before this one began are written into it, so
    /// that a long stream does not keep every segment since.
    fn rotate(&mut self, dir: &Path) {
        if let Err(error) = self.begin_segment(dir, self.active.number()) {
            // the old one will do for longer
            self.note(&Err(error));
        }
    }

    /// Starts the next segment, and writes into it the open requests whose last entries are in segments
    /// before `until`.
    fn begin_segment(&mut self, dir: &Path, until: u64) -> io::Result<()> {
        let next = self.active.number() + 1;
        let room = self.open.len() as u64 * RESERVE * 2 + self.unwritten.len() as u64;
        let begun = Segment::create(dir, next, room)?;
        // what the old one does not take goes into the new one
        _ = self.write();
        let full = std::mem::replace(&mut self.active, begun);
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.push(full.file());
        }
        self.since = Instant::now();
        self.needed.insert(next, 0);
        let old = self.open.iter().filter(|(_, anchored)| anchored.segment < until);
        let kept = self.unwritten.len();
        let mut moved = Vec::new();
        for (id, anchored) in old {
            frame::append(&mut self.unwritten, |out| entry::put_open(&anchored.open, out));
            moved.push(*id);
        }
        let segment = self.write_or_keep(kept)?;
        for id in moved {
            self.move_anchor(id, segment);
        }
        Ok(())
    }

    /// Returns the segments that may be removed: the oldest ones, as far as nothing needs them.
    fn tidy(&mut self, dir: &Path) -> Vec<u64> {
        let idle = self.needed.values().all(|&count| count == 0);
        if idle {
            // ends that the store has by now
            self.unwritten.clear();
        }
        if idle && (1..=CHEAP_TO_CLEAR).contains(&self.active.len()) {
            let cleared = self.active.clear();
            self.note(&cleared);
        } else if self.active.len() > 0 && (idle || self.since.elapsed() >= OLDEST_SEGMENT) {
            self.rotate(dir);
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
        unneeded
    }
}
