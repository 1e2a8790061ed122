//! The truth log: the requests that the simulator received and the tokens that it sent, for
//! reconciliation with a ledger.
//!
//! Counts the tokens that were handed to the connection; if the connection broke, the client may
//! have read less. Each line is written to the file immediately and in one write, so that it
//! survives a crash of the process.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The maximum number of entries in memory.
const MAX_ENTRIES: usize = 10_000;

/// A log of requests and answers. Cheap to clone; clones share the entries.
#[derive(Clone, Debug)]
pub struct TruthLog(Arc<Mutex<Inner>>);

/// One request. The file has two lines per request, the first without `end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthEntry {
    /// The sequence number, from 1; unique in a file.
    pub seq: u64,
    /// The `x-request-id` header.
    pub id: Option<String>,
    /// The requested model, including its script; empty if the request cannot be parsed.
    pub model: String,
    /// Whether a stream was requested.
    pub stream: bool,
    /// The outcome; `None` while the request is in progress.
    pub end: Option<RequestEnd>,
    /// The tokens of the prompt; 0 if the request was refused.
    pub prompt_tokens: u64,
    /// The answer tokens that were sent. A plain answer counts with its last byte only.
    pub completion_tokens: u64,
    /// The tokens of the complete answer.
    pub completion_tokens_whole: u64,
    /// Whether the usage was sent.
    pub usage_sent: bool,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestEnd {
    /// The complete answer was sent.
    Answered,
    /// An error was sent, as a status or within the stream.
    Error,
    /// The script dropped the connection.
    Cut,
    /// The client disconnected, or the simulator was stopped.
    Gone,
}

#[derive(Debug)]
struct Inner {
    /// Invariant: consecutive `seq`.
    entries: VecDeque<TruthEntry>,
    last_seq: u64,
    file: Option<File>,
}

/// A request in progress. Dropping it before its end records [`RequestEnd::Gone`].
#[derive(Debug)]
pub(super) struct Record {
    log: TruthLog,
    entry: TruthEntry,
}

// === impl TruthLog ===

impl TruthLog {
    /// Creates a log that keeps the last 10,000 entries in memory.
    pub fn memory() -> Self {
        Self::new(0, None)
    }

    /// Creates a log that also appends its entries to the file at `path`, as JSON lines.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub fn file(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let text = std::fs::read_to_string(&path)?;
        let known = text.lines().filter_map(|line| serde_json::from_str::<TruthEntry>(line).ok());
        Ok(Self::new(known.map(|entry| entry.seq).max().unwrap_or_default(), Some(file)))
    }

    /// Returns the entries of this process, oldest first.
    pub fn entries(&self) -> Vec<TruthEntry> {
        self.lock().entries.iter().cloned().collect()
    }

    /// Records a new request. Assigns its `seq`.
    pub(super) fn start(&self, mut entry: TruthEntry) -> Record {
        let mut inner = self.lock();
        inner.last_seq += 1;
        entry.seq = inner.last_seq;
        if inner.entries.len() == MAX_ENTRIES {
            inner.entries.pop_front();
        }
        inner.entries.push_back(entry.clone());
        inner.write(&entry);
        drop(inner);
        Record { log: self.clone(), entry }
    }

    fn new(last_seq: u64, file: Option<File>) -> Self {
        Self(Arc::new(Mutex::new(Inner { entries: VecDeque::new(), last_seq, file })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn finish(&mut self, entry: &TruthEntry) {
        let first = self.entries.front().map_or(0, |first| first.seq);
        let at = entry.seq.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(kept) = at.and_then(|at| self.entries.get_mut(at)) {
            kept.clone_from(entry);
        }
        self.write(entry);
    }

    fn write(&self, entry: &TruthEntry) {
        let Some(mut file) = self.file.as_ref() else { return };
        let line = serde_json::to_string(entry).map(|line| line + "\n").map_err(io::Error::from);
        if let Err(error) = line.and_then(|line| file.write_all(line.as_bytes())) {
            tracing::error!(%error, "a line of the simulator's truth log is lost");
        }
    }
}

// === impl Record ===

impl Record {
    /// Records a sent part of the answer.
    pub(super) fn sent(&mut self, tokens: u64, usage: bool) {
        self.entry.completion_tokens += tokens;
        self.entry.usage_sent |= usage;
    }

    /// Records the outcome. Only the first call has an effect.
    pub(super) fn end(&mut self, end: RequestEnd) {
        if self.entry.end.is_none() {
            self.entry.end = Some(end);
            self.log.lock().finish(&self.entry);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.end(RequestEnd::Gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(model: &str) -> TruthEntry {
        TruthEntry { model: model.to_owned(), ..TruthEntry::default() }
    }

    #[test]
    fn only_the_first_end_is_recorded() {
        let log = TruthLog::memory();
        let mut record = log.start(asked("sim"));
        assert_eq!(log.entries()[0].end, None);
        record.sent(2, false);
        record.sent(1, true);
        record.end(RequestEnd::Answered);
        drop(record);
        let expected = TruthEntry {
            seq: 1,
            end: Some(RequestEnd::Answered),
            completion_tokens: 3,
            usage_sent: true,
            ..asked("sim")
        };
        assert_eq!(log.entries(), [expected]);
    }

    #[test]
    fn dropping_a_record_records_gone() {
        let log = TruthLog::memory();
        drop(log.start(asked("sim")));
        assert_eq!(log.entries()[0].end, Some(RequestEnd::Gone));
    }

    #[test]
    fn memory_is_bounded_and_ends_of_evicted_entries_are_ignored() {
        let log = TruthLog::memory();
        let first = log.start(asked("first"));
        for _ in 0..MAX_ENTRIES {
            drop(log.start(asked("other")));
        }
        drop(first);
        let entries = log.entries();
        assert_eq!((entries.len(), entries[0].seq), (MAX_ENTRIES, 2));
        assert!(entries.iter().all(|entry| entry.model == "other"));
    }

    #[test]
    fn file_has_two_lines_per_request_and_continues_its_sequence() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("truth.jsonl");
        drop(TruthLog::file(&path).expect("a log").start(asked("a")));
        drop(TruthLog::file(&path).expect("a log").start(asked("b")));
        let text = std::fs::read_to_string(&path).expect("a file");
        let lines: Vec<TruthEntry> =
            text.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect();
        let seen: Vec<_> = lines.iter().map(|it| (it.seq, it.model.as_str(), it.end)).collect();
        let gone = Some(RequestEnd::Gone);
        assert_eq!(seen, [(1, "a", None), (1, "a", gone), (2, "b", None), (2, "b", gone)]);
    }
}
