//! Token files, created with access for their owner only.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use crate::error::{Exit, Failure};

/// The name of the operator token's file in a gateway's data directory.
pub(super) const OPERATOR_TOKEN: &str = "operator.token";
const OTHER_TOKEN_FILE: &str = "name another file with --token-file FILE";

/// Writes a session token to a file that only its owner can read.
pub(crate) fn write_token(path: &Path, token: &SecretString) -> Result<(), Failure> {
    refuse_operator_token(path)?;
    write_private(path, &format!("{}\n", token.expose_secret()))
}

/// Checks that [`write_token`] can write this file, without creating it.
pub(crate) fn ensure_token_writable(path: &Path) -> Result<(), Failure> {
    refuse_operator_token(path)?;
    ensure_writable(path).map_err(|failure| failure.advise(OTHER_TOKEN_FILE))
}

fn refuse_operator_token(path: &Path) -> Result<(), Failure> {
    if is_operator_token(path) {
        let message = format!("`{}` holds the gateway's operator token", path.display());
        return Err(Failure::usage(message).advise(OTHER_TOKEN_FILE));
    }
    Ok(())
}

/// Removes a token file; a missing file is no error.
pub(crate) fn remove_token(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::file("removing", path, &error))
        }
        _ => Ok(()),
    }
}

/// Returns whether a file is, by its name, the operator token that a gateway created.
pub(crate) fn is_operator_token(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == OPERATOR_TOKEN)
}

pub(super) fn read_token(path: &Path) -> Result<SecretString, Failure> {
    let unusable = |reason: &dyn std::fmt::Display| {
        let message = format!("reading the token file `{}`: {reason}", path.display());
        Failure::new(Exit::NotAllowed, message)
            .advise(format!("`ctl login NAME --token-file {}` writes one", path.display()))
    };
    let text = SecretString::from(fs::read_to_string(path).map_err(|error| unusable(&error))?);
    match text.expose_secret().trim() {
        "" => Err(unusable(&"it is empty")),
        token => Ok(SecretString::from(token)),
    }
}

/// Atomically replaces a file. Only its owner can read it, from its creation on.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(directory_of(path))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)
    };
    write().map(|_| ()).map_err(|error| Failure::file("writing", path, &error))
}

/// Checks that [`write_private`] can write a file, without creating it.
pub(super) fn ensure_writable(path: &Path) -> Result<(), Failure> {
    let check = || {
        if path.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        tempfile::NamedTempFile::new_in(directory_of(path)).map(drop)
    };
    check().map_err(|error| Failure::file("writing", path, &error))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}
