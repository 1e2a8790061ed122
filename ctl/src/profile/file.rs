//! The profile file: named gateways, the sessions with them, and the gateway that is meant if none
//! is named. Changed by one `ctl` of a user at a time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::secret_file::{ensure_writable, write_private};
use crate::error::{Exit, Failure};

/// What the profile file holds.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ProfileFile {
    /// The server that was signed in to, or chosen, last; the one that is meant if none is named.
    pub(crate) server: Option<String>,
    /// Gateways by the name that the user gave them.
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
    /// A session per server.
    #[serde(default)]
    pub(crate) sessions: BTreeMap<String, Session>,
}

/// A gateway that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Its admin address.
    pub(crate) server: String,
    /// The certificate authorities that its certificate is of, if not public ones.
    pub(crate) ca_file: Option<PathBuf>,
}

/// A session as the profile file keeps it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Session {
    /// Whose it is.
    pub(crate) account: String,
    /// Its token.
    pub(crate) token: String,
}

impl ProfileFile {
    /// Returns where the file is in a directory.
    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join("profile.toml")
    }

    /// Reads the file in `dir`; one that is not there is empty.
    pub(super) fn read(dir: &Path) -> Result<Self, Failure> {
        let path = Self::path(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Failure::file("reading", &path, &error)),
        };
        // Not the whole error: it quotes the line, and with it perhaps the token.
        toml::from_str(&text).map_err(|error| {
            let message = format!("reading `{}`: {}", path.display(), error.message());
            Failure::new(Exit::Failed, message).advise("mend the file, or remove it and sign in")
        })
    }

    /// Reads, changes and replaces the file in `dir`, alone among all `ctl`s of this user.
    pub(super) fn change<T>(
        dir: &Path,
        edit: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        create_private_dir(dir)?;
        let turn = dir.join("profile.lock");
        let _turn = File::create(&turn)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| Failure::file("locking", &turn, &error))?;
        let mut file = Self::read(dir)?;
        let done = edit(&mut file)?;
        let text = toml::to_string_pretty(&file)
            .map_err(|error| Failure::new(Exit::Failed, format!("writing the profile: {error}")))?;
        write_private(&Self::path(dir), &text)?;
        Ok(done)
    }

    /// Makes sure that [`Self::change`] will be able to write the file in `dir`, and changes nothing.
    pub(super) fn ensure_writable(dir: &Path) -> Result<(), Failure> {
        create_private_dir(dir)?;
        Self::read(dir)?;
        ensure_writable(&Self::path(dir))
    }

    /// Returns a profile by its name.
    pub(crate) fn named(&self, name: &str) -> Result<&Profile, Failure> {
        self.profiles.get(name).ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("there is no profile `{name}`"))
                .advise("see `ctl profile list`; `ctl profile set NAME --server URL` makes one")
        })
    }
}

fn create_private_dir(dir: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Failure::file("making", dir, &error))
}
