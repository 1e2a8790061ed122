//! One file of the journal, which is laid out with zeros ahead of what is written.
//!
//! So there is room for the end of every request that was let in, even once the disk is full, and a
//! write changes no file size.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first bytes of a segment; the last two are the version of what follows.
pub(super) const HEADER: [u8; 16] = *b"tollgate-jrnl\0\0\x01";
/// How much is laid out at once.
const STEP: u64 = 256 * 1024;
const ENDING: &str = "journal";

/// A file that is written to.
#[derive(Debug)]
pub(super) struct Segment {
    file: Arc<File>,
    number: u64,
    /// Where the next frame goes.
    end: u64,
    laid_out: u64,
}

/// What the file's name says of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// Its place in the order of segments.
    pub(super) number: u64,
    /// Where it is.
    pub(super) path: PathBuf,
}

impl Segment {
    /// Makes an empty segment with room for `room` bytes; none is left behind if that fails.
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

    /// The file itself, for whoever brings it to the disk.
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes were written since it was made or cleared.
    pub(super) fn len(&self) -> u64 {
        self.end - HEADER.len() as u64
    }

    /// Makes sure that `room` more bytes can be written.
    pub(super) fn make_room(&mut self, room: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        let wanted = self.end + room;
        if wanted <= self.laid_out {
            return Ok(());
        }
        let wanted = wanted.next_multiple_of(STEP);
        while self.laid_out < wanted {
            let count = (wanted - self.laid_out).min(ZEROS.len() as u64);
            let zeros = ZEROS.get(..usize::try_from(count).unwrap_or(0)).unwrap_or(&ZEROS);
            self.file.write_all_at(zeros, self.laid_out)?;
            self.laid_out += count;
        }
        Ok(())
    }

    /// Writes frames behind the last one.
    pub(super) fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.write_all_at(frames, self.end)?;
        self.end += frames.len() as u64;
        Ok(())
    }

    /// Finds out whether it can be written: writes a zero where there is one.
    pub(super) fn probe(&self) -> io::Result<()> {
        if self.end < self.laid_out {
            return self.file.write_all_at(&[0], self.end);
        }
        Ok(())
    }

    /// Forgets what was written, and keeps the room. Costs as much as was written.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(self.len()).unwrap_or(0)];
        self.file.write_all_at(&zeros, HEADER.len() as u64)?;
        self.end = HEADER.len() as u64;
        Ok(())
    }

    /// Puts another file in the place of this one's.
    #[cfg(test)]
    pub(super) fn swap_file(&mut self, other: impl Into<Arc<File>>) -> Arc<File> {
        std::mem::replace(&mut self.file, other.into())
    }
}

/// Where segment `number` is.
pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.{ENDING}"))
}

/// Finds the segments in `dir`, oldest first.
pub(super) fn find_all(dir: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(dir)? {
        let path = file?.path();
        if path.extension().is_some_and(|ending| ending == ENDING)
            && let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            found.push(Found { number, path });
        }
    }
    found.sort();
    Ok(found)
}
