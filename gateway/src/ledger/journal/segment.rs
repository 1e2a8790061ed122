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
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A segment that is written to.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<File>,
    number: u64,
    /// The position of the next frame.
    end: u64,
    /// The end of the zeros that were written in advance.
    laid_out: u64,
    /// The position behind the last byte that a failed write may have left behind `end`. Invariant: these
    /// bytes are zeroed before another frame is written, because a reader would take them for frames.
    stale_end: u64,
    /// The number of bytes that the file still accepts, for tests; `None` for any number.
    #[cfg(test)]
    pub(super) accepts: Option<usize>,
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
        let mut segment = Self {
            file: Arc::new(file),
            number,
            end,
            laid_out: 0,
            stale_end: end,
            #[cfg(test)]
            accepts: None,
        };
        let begun = segment.write_at(&HEADER, 0).and_then(|()| {
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
        let wanted = self.end + room;
        if wanted <= self.laid_out {
            return Ok(());
        }
        let wanted = wanted.next_multiple_of(PREALLOCATION_BYTES);
        while self.laid_out < wanted {
            self.laid_out = self.write_zeros(self.laid_out, wanted)?;
        }
        Ok(())
    }

    /// Writes frames after the last one. On failure, bytes of them that are in the file are removed, now or by
    /// the next write.
    pub(super) fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        self.remove_stale()?;
        let end = self.end + frames.len() as u64;
        let written = self.write_at(frames, self.end);
        if written.is_err() {
            self.stale_end = end;
            // The process may end before the next write.
            _ = self.remove_stale();
            return written;
        }
        (self.end, self.stale_end) = (end, end);
        Ok(())
    }

    /// Checks that the file can be written, by overwriting a zero with a zero.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        self.remove_stale()?;
        if self.end < self.laid_out {
            return self.write_at(&[0], self.end);
        }
        Ok(())
    }

    /// Discards what was written and keeps the space. The cost is proportional to what was written. On
    /// failure, the next write discards the rest.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.end = HEADER.len() as u64;
        self.remove_stale()
    }

    /// Overwrites with zeros what a failed write left behind the last frame. It goes from back to front,
    /// because zeros in front of other bytes are damage to a reader, and a partial last frame is not.
    fn remove_stale(&mut self) -> io::Result<()> {
        while self.end < self.stale_end {
            let from = self.end.max(self.stale_end.saturating_sub(ZEROS.len() as u64));
            self.write_zeros(from, self.stale_end)?;
            self.stale_end = from;
        }
        Ok(())
    }

    /// Writes zeros between two positions, up to the length of [`ZEROS`], and returns their end.
    fn write_zeros(&mut self, from: u64, to: u64) -> io::Result<u64> {
        let count = (to - from).min(ZEROS.len() as u64);
        let zeros = ZEROS.get(..usize::try_from(count).unwrap_or(0)).unwrap_or(&ZEROS);
        self.write_at(zeros, from)?;
        Ok(from + count)
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some(accepts) = &mut self.accepts {
            let accepted = bytes.len().min(*accepts);
            *accepts -= accepted;
            self.file.write_all_at(&bytes[..accepted], at)?;
            if accepted < bytes.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            return Ok(());
        }
        self.file.write_all_at(bytes, at)
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
