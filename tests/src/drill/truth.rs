//! A reader for the simulator's truth log, which is written meanwhile.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use simulator::TruthEntry;

/// The simulator's record of the requests it received and the answers it sent, by round.
pub(super) struct TruthLogReader {
    path: PathBuf,
    /// The bytes of the file that belong to earlier rounds.
    read: u64,
}

impl TruthLogReader {
    /// Opens the log at `path`.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0 }
    }

    /// Returns whether every answer of the round has ended.
    pub(super) fn is_at_rest(&self) -> bool {
        self.look().0.iter().all(|entry| entry.end.is_some())
    }

    /// Returns the last state of the round's requests, and starts a new round.
    pub(super) fn take(&mut self) -> Vec<TruthEntry> {
        let (entries, read) = self.look();
        self.read = read;
        entries
    }

    fn look(&self) -> (Vec<TruthEntry>, u64) {
        let mut text = String::new();
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(self.read)).unwrap();
        file.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let entries: BTreeMap<u64, TruthEntry> = text[..whole]
            .lines()
            .map(|line| serde_json::from_str::<TruthEntry>(line).unwrap())
            .map(|entry| (entry.seq, entry))
            .collect();
        (entries.into_values().collect(), self.read + whole as u64)
    }
}
