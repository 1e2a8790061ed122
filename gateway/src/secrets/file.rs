//! Secret files of the data directory, with mode 0600.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use tempfile::NamedTempFile;

/// Returns the trimmed secret in `dir/name`. Creates the file with the result of `make` if it does
/// not exist.
///
/// The file is created atomically and synced to the disk before the function returns.
pub(crate) fn read_or_create(
    dir: &Path,
    name: &str,
    make: impl FnOnce() -> SecretString,
) -> io::Result<SecretString> {
    let path = dir.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => {
            warn_if_exposed(&path);
            let text = zeroize::Zeroizing::new(text);
            return Ok(text.trim().into());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let secret = make();
    // Temporary files have mode 0600.
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(secret.expose_secret().as_bytes())?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist_noclobber(&path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()?;
    Ok(secret)
}

/// Writes a replacement of `dir/name` beside it. It takes effect with [`commit_replacement`].
pub(crate) fn write_replacement(dir: &Path, name: &str, secret: &SecretString) -> io::Result<()> {
    replace(dir, &replacement(name), secret)
}

/// Writes the secret to `dir/name`, in place of an existing file. A crash leaves the old or the new file.
pub(crate) fn replace(dir: &Path, name: &str, secret: &SecretString) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(secret.expose_secret().as_bytes())?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist(dir.join(name)).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Returns the trimmed replacement of `dir/name` that was not committed, if there is one.
pub(crate) fn read_replacement(dir: &Path, name: &str) -> io::Result<Option<SecretString>> {
    match fs::read_to_string(dir.join(replacement(name))) {
        Ok(text) => Ok(Some(zeroize::Zeroizing::new(text).trim().into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts the replacement of `dir/name` in its place.
pub(crate) fn commit_replacement(dir: &Path, name: &str) -> io::Result<()> {
    fs::rename(dir.join(replacement(name)), dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Removes the replacement of `dir/name`.
pub(crate) fn remove_replacement(dir: &Path, name: &str) -> io::Result<()> {
    fs::remove_file(dir.join(replacement(name)))
}

fn replacement(name: &str) -> String {
    format!("{name}.new")
}

/// Copies the secret at `path` to the new file `dir/name`, and syncs it to the disk.
pub(crate) fn copy(path: &Path, dir: &Path, name: &OsStr) -> io::Result<()> {
    let secret = zeroize::Zeroizing::new(fs::read(path)?);
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(&secret)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(dir.join(name)).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

#[cfg(unix)]
fn warn_if_exposed(path: &Path) {
    use std::os::unix::fs::PermissionsExt;

    if fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "others can read this secret; set its mode to 0600");
    }
}

#[cfg(not(unix))]
fn warn_if_exposed(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_the_file_once_with_mode_0600() {
        let dir = tempfile::tempdir().unwrap();
        let first = read_or_create(dir.path(), "s", || "one".into()).unwrap();
        let again = read_or_create(dir.path(), "s", || "two".into()).unwrap();
        assert_eq!((first.expose_secret(), again.expose_secret()), ("one", "one"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(dir.path().join("s")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
