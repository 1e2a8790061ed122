//! The profile file: named gateways, their sessions, and the default gateway.
//!
//! A lock file serializes the changes of concurrent `ctl` processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::secret_file::{ensure_writable, write_private};
use crate::error::{Exit, Failure};

/// The contents of the profile file.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ProfileFile {
    /// The default gateway: the one of the last sign-in or `ctl profile use`.
    pub(crate) server: Option<String>,
    /// Profiles by name.
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
    /// Sessions by admin address.
    #[serde(default)]
    pub(crate) sessions: BTreeMap<String, Session>,
}

/// A named gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// The admin address.
    pub(crate) server: String,
    /// The PEM file of the certificate authorities to trust, if not those of the host.
    pub(crate) ca_file: Option<PathBuf>,
    /// The PEM file of the certificate and the key for a gateway that demands a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity_file: Option<PathBuf>,
}

/// A session as stored in the profile file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Session {
    /// The name of the account.
    pub(crate) account: String,
    /// The session token.
    pub(crate) token: String,
}

impl ProfileFile {
    /// Returns the path of the profile file in `dir`.
    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join("profile.toml")
    }

    /// Reads the file in `dir`; a missing file is empty.
    pub(super) fn read(dir: &Path) -> Result<Self, Failure> {
        let path = Self::path(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Failure::file("reading", &path, &error)),
        };
        // Only the message: the whole error quotes the line, which may contain the token.
        toml::from_str(&text).map_err(|error| {
            let message = format!("reading `{}`: {}", path.display(), error.message());
            Failure::new(Exit::Failed, message).advise("fix the file, or remove it and sign in")
        })
    }

    /// Reads, edits and atomically replaces the file in `dir`, while holding the lock file.
    pub(super) fn change<T>(
        dir: &Path,
        edit: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        create_private_dir(dir)?;
        let lock_path = dir.join("profile.lock");
        let _lock = File::create(&lock_path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| Failure::file("locking", &lock_path, &error))?;
        let mut file = Self::read(dir)?;
        let done = edit(&mut file)?;
        let text = toml::to_string_pretty(&file)
            .map_err(|error| Failure::new(Exit::Failed, format!("writing the profile: {error}")))?;
        write_private(&Self::path(dir), &text)?;
        Ok(done)
    }

    /// Checks that [`Self::change`] can write the file in `dir`, without changing it.
    pub(super) fn ensure_writable(dir: &Path) -> Result<(), Failure> {
        create_private_dir(dir)?;
        Self::read(dir)?;
        ensure_writable(&Self::path(dir))
    }

    /// Returns the profile with this name.
    pub(crate) fn profile(&self, name: &str) -> Result<&Profile, Failure> {
        self.profiles.get(name).ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("there is no profile `{name}`"))
                .advise("see `ctl profile list`; `ctl profile set NAME --server URL` creates one")
        })
    }
}

fn create_private_dir(dir: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Failure::file("creating", dir, &error))
}
