//! The truth log: what the simulator was asked and what it sent, to hold a ledger against.
//!
//! Counts what was handed to the connection; the client read as much, or less if the connection
//! broke. Lines are written to the file at once and whole, so that they outlive the process,
//! however it ends.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// How many entries are kept in memory.
const KEPT: usize = 10_000;

/// A log of what was asked and sent. Cheap to clone; clones share the entries.
#[derive(Clone, Debug)]
pub struct TruthLog(Arc<Mutex<Inner>>);

/// One request. In the file it has two lines, the first without `end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the request, from 1; never used twice in one file.
    pub seq: u64,
    /// Its `x-request-id` header.
    pub id: Option<String>,
    /// The model as asked for, script and all; empty if the request cannot be read.
    pub model: String,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// How it ended; `None` while it goes on.
    pub end: Option<End>,
    /// The tokens of the question; 0 if it was refused.
    pub prompt_tokens: u64,
    /// The tokens of the answer that were sent; of a plain answer, none before its last byte.
    pub completion_tokens: u64,
    /// The tokens of the whole answer.
    pub completion_tokens_whole: u64,
    /// Whether the usage was sent.
    pub usage_sent: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The answer was sent to its end.
    Answered,
    /// An error was sent, as status or within the stream.
    Error,
    /// The connection was dropped because the script said so.
    Cut,
    /// The client hung up, or the simulator was stopped.
    Gone,
}

#[derive(Debug)]
struct Inner {
    /// Without gaps in `seq`.
    entries: VecDeque<Entry>,
    last_seq: u64,
    file: Option<File>,
}

/// A request that is being answered. If it is dropped before its end, the client is gone.
#[derive(Debug)]
pub(super) struct Record {
    log: TruthLog,
    entry: Entry,
}

// === impl TruthLog ===

impl TruthLog {
    /// Keeps the last 10,000 entries in memory.
    pub fn memory() -> Self {
        Self::new(0, None)
    }

    /// Keeps them also in the file at `path`, as JSON lines, after those that it has.
    ///
    /// # Errors
    ///
    /// If the file cannot be read and written.
    pub fn file(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let text = std::fs::read_to_string(&path)?;
        let known = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
        Ok(Self::new(known.map(|entry| entry.seq).max().unwrap_or_default(), Some(file)))
    }

    /// Returns the entries of this process, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.iter().cloned().collect()
    }

    /// Notes that `entry` was asked; its `seq` is given here.
    pub(super) fn ask(&self, mut entry: Entry) -> Record {
        let mut inner = self.lock();
        inner.last_seq += 1;
        entry.seq = inner.last_seq;
        if inner.entries.len() == KEPT {
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
    fn finish(&mut self, entry: &Entry) {
        let first = self.entries.front().map_or(0, |first| first.seq);
        let at = entry.seq.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(kept) = at.and_then(|at| self.entries.get_mut(at)) {
            kept.clone_from(entry);
        }
        self.write(entry);
    }

    fn write(&self, entry: &Entry) {
        let Some(mut file) = self.file.as_ref() else { return };
        let line = serde_json::to_string(entry).map(|line| line + "\n").map_err(io::Error::from);
        if let Err(error) = line.and_then(|line| file.write_all(line.as_bytes())) {
            tracing::error!(%error, "a line of the simulator's truth log is lost");
        }
    }
}

// === impl Record ===

impl Record {
    /// Notes that a piece of the answer was sent.
    pub(super) fn sent(&mut self, tokens: u64, usage: bool) {
        self.entry.completion_tokens += tokens;
        self.entry.usage_sent |= usage;
    }

    /// Notes the end; the first one counts.
    pub(super) fn end(&mut self, end: End) {
        if self.entry.end.is_none() {
            self.entry.end = Some(end);
            self.log.lock().finish(&self.entry);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.end(End::Gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(model: &str) -> Entry {
        Entry { model: model.to_owned(), ..Entry::default() }
    }

    #[test]
    fn an_entry_is_open_until_its_end_and_the_first_end_counts() {
        let log = TruthLog::memory();
        let mut record = log.ask(asked("sim"));
        assert_eq!(log.entries()[0].end, None);
        record.sent(2, false);
        record.sent(1, true);
        record.end(End::Answered);
        drop(record);
        let expected = Entry {
            seq: 1,
            end: Some(End::Answered),
            completion_tokens: 3,
            usage_sent: true,
            ..asked("sim")
        };
        assert_eq!(log.entries(), [expected]);
    }

    #[test]
    fn a_dropped_record_means_that_the_client_is_gone() {
        let log = TruthLog::memory();
        drop(log.ask(asked("sim")));
        assert_eq!(log.entries()[0].end, Some(End::Gone));
    }

    #[test]
    fn memory_is_bounded_and_late_ends_of_forgotten_entries_do_no_harm() {
        let log = TruthLog::memory();
        let first = log.ask(asked("first"));
        for _ in 0..KEPT {
            drop(log.ask(asked("other")));
        }
        drop(first);
        let entries = log.entries();
        assert_eq!((entries.len(), entries[0].seq), (KEPT, 2));
        assert!(entries.iter().all(|entry| entry.model == "other"));
    }

    #[test]
    fn the_file_has_a_line_for_each_question_and_each_end_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("truth.jsonl");
        drop(TruthLog::file(&path).expect("a log").ask(asked("a")));
        drop(TruthLog::file(&path).expect("a log").ask(asked("b")));
        let text = std::fs::read_to_string(&path).expect("a file");
        let lines: Vec<Entry> =
            text.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect();
        let seen: Vec<_> = lines.iter().map(|it| (it.seq, it.model.as_str(), it.end)).collect();
        let gone = Some(End::Gone);
        assert_eq!(seen, [(1, "a", None), (1, "a", gone), (2, "b", None), (2, "b", gone)]);
    }
}
