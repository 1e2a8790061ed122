//! Copies of the database in a directory, ordered by what their names say: a time or a schema version.
//!
//! [`crate::backups`] and the copies before an upgrade name them, and choose which ones are too many.

use std::io;
use std::path::{Path, PathBuf};

/// Returns the files in `dir` whose names `parse` accepts, in ascending order of what it returns.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn list<K: Ord>(
    dir: &Path,
    parse: impl Fn(&str) -> Option<K>,
) -> io::Result<Vec<(K, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(key) = name.and_then(&parse) {
            found.push((key, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Deletes the first of `copies` until only the last `keep` are left.
///
/// # Errors
/// A file cannot be deleted.
pub(crate) fn delete_first<K>(copies: &[(K, PathBuf)], keep: usize) -> io::Result<()> {
    let surplus = copies.len().saturating_sub(keep);
    for (_, path) in &copies[..surplus] {
        std::fs::remove_file(path)?;
        tracing::info!(copy = %path.display(), "deleted an old copy of the database");
    }
    Ok(())
}
