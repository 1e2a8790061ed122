//! One file of the journal, preallocated with zeros.
//!
//! Preallocation guarantees space for the end of every admitted request even once the disk is full, and a
//! write does not change the file size.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first bytes of a segment; the last two are the version of the format.
pub(super) const HEADER: [u8; 16] = *b"tollgate-jrnl\0\0\x01";
/// The size of a preallocation, in bytes.
const PREALLOCATION_BYTES: u64 = 256 * 1024;
const ENDING: &str = "journal";

/// A segment that is written to.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<File>,
    number: u64,
    /// The position of the next frame.
    end: u64,
    laid_out: u64,
}

/// A segment file, as described by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentFile {
    /// Its number in the order of segments.
    pub(super) number: u64,
    /// Its path.
    pub(super) path: PathBuf,
}

impl Segment {
    /// Creates an empty segment with `room` bytes preallocated; leaves no file behind on failure.
    pub(super) fn create(dir: &Path, number: u64, room: u64) -> io::Result<Self> {
        let path = path(dir, number);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let end = HEADER.len() as u64;
        let mut segment = Self { file: Arc::new(file), number, end, laid_out: 0 };
        let begun = segment.file.write_all_at(&HEADER, 0).and_then(|()| {
            segment.laid_out = end;
            segment.make_room(room)
        });
        if let Err(error) = begun {
            _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(segment)
    }

    /// Returns the file, for syncing.
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes written since it was created or cleared.
    pub(super) fn len(&self) -> u64 {
        self.end - HEADER.len() as u64
    }

    /// Ensures that `room` more bytes can be written.
    pub(super) fn make_room(&mut self, room: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        let wanted = self.end + room;
        if wanted <= self.laid_out {
            return Ok(());
        }
        let wanted = wanted.next_multiple_of(PREALLOCATION_BYTES);
        while self.laid_out < wanted {
            let count = (wanted - self.laid_out).min(ZEROS.len() as u64);
            let zeros = ZEROS.get(..usize::try_from(count).unwrap_or(0)).unwrap_or(&ZEROS);
            self.file.write_all_at(zeros, self.laid_out)?;
            self.laid_out += count;
        }
        Ok(())
    }

    /// Writes frames after the last one.
    pub(super) fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.write_all_at(frames, self.end)?;
        self.end += frames.len() as u64;
        Ok(())
    }

    /// Checks that the file can be written, by overwriting a zero with a zero.
    pub(super) fn probe(&self) -> io::Result<()> {
        if self.end < self.laid_out {
            return self.file.write_all_at(&[0], self.end);
        }
        Ok(())
    }

    /// Discards what was written and keeps the space. The cost is proportional to what was written.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(self.len()).unwrap_or(0)];
        self.file.write_all_at(&zeros, HEADER.len() as u64)?;
        self.end = HEADER.len() as u64;
        Ok(())
    }

    /// Replaces the file, for tests.
    #[cfg(test)]
    pub(super) fn swap_file(&mut self, other: impl Into<Arc<File>>) -> Arc<File> {
        std::mem::replace(&mut self.file, other.into())
    }
}

/// Returns the path of segment `number`.
pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.{ENDING}"))
}

/// Returns the segments in `dir`, oldest first.
pub(super) fn find_all(dir: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(dir)? {
        let path = file?.path();
        if path.extension().is_some_and(|ending| ending == ENDING)
            && let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            found.push(SegmentFile { number, path });
        }
    }
    found.sort();
    Ok(found)
}
