//! Tokens on disk: a file that its owner alone may read, from its first moment.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use crate::error::{Exit, Failure};

/// The file in a gateway's data directory that holds its operator token.
pub(super) const OPERATOR_TOKEN: &str = "operator.token";

/// Writes a session token to a file of its own, for its owner only.
pub(crate) fn write_token(path: &Path, token: &SecretString) -> Result<(), Failure> {
    if is_operator_token(path) {
        let message = format!("`{}` holds the gateway's operator token", path.display());
        return Err(Failure::usage(message).advise("name another file with --token-file FILE"));
    }
    write_private(path, &format!("{}\n", token.expose_secret()))
}

/// Removes a token file; one that is gone already is fine.
pub(crate) fn remove_token(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::file("removing", path, &error))
        }
        _ => Ok(()),
    }
}

/// Says whether a file is, by its name, the operator token that a gateway wrote for itself.
pub(crate) fn is_operator_token(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == OPERATOR_TOKEN)
}

pub(super) fn read_token(path: &Path) -> Result<SecretString, Failure> {
    let unusable = |why: &dyn std::fmt::Display| {
        let message = format!("reading the token file `{}`: {why}", path.display());
        Failure::new(Exit::NotAllowed, message)
            .advise(format!("`ctl login NAME --token-file {}` writes one", path.display()))
    };
    let text = SecretString::from(fs::read_to_string(path).map_err(|error| unusable(&error))?);
    match text.expose_secret().trim() {
        "" => Err(unusable(&"it is empty")),
        token => Ok(SecretString::from(token)),
    }
}

/// Replaces a file in one step; it is readable by its owner only from its first moment.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)
    };
    write().map(|_| ()).map_err(|error| Failure::file("writing", path, &error))
}
