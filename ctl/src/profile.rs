//! Which gateway is meant, and who asks: flags, environment, profile file and the local operator
//! token, in falling precedence.
//!
//! The only module that reads the environment ([`Environment::of_process`]) or touches a token on
//! disk. A session is kept under the server that gave it and is never sent to another. Start at
//! [`resolve`]; `file` is what is kept, `address` the form of addresses, `secret_file` a token on disk.

mod address;
mod file;
mod secret_file;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use trust::Trust;

use crate::clock;
use crate::error::{Exit, Failure};
use address::address;
use file::Session;
use secret_file::{OPERATOR_TOKEN, read_token};

pub(crate) use address::is_local;
pub(crate) use file::{Profile, ProfileFile};
pub(crate) use secret_file::{ensure_token_writable, is_operator_token, remove_token, write_token};

/// Where a gateway on this host listens by default.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:8081";

const UNSET_TOKEN_FILE: &str =
    "unset TOLLGATE_TOKEN_FILE, which names it, or sign in with `ctl login NAME`";

/// All that `ctl` takes from the process it runs in, besides arguments and streams.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `TOLLGATE_SERVER`.
    pub server: Option<String>,
    /// `TOLLGATE_TOKEN`.
    pub token: Option<SecretString>,
    /// `TOLLGATE_TOKEN_FILE`.
    pub token_file: Option<PathBuf>,
    /// `TOLLGATE_PROFILE`: the name of a profile.
    pub profile: Option<String>,
    /// `TOLLGATE_CA_FILE`: certificate authorities to trust instead of the public ones, in PEM.
    pub ca_file: Option<PathBuf>,
    /// `COMPLETE`: the shell whose half-typed line shall be completed, instead of a command run.
    pub complete: Option<String>,
    /// `TOLLGATE_API_KEY`: what clients of the API present, and ctl only to check that they can.
    pub api_key: Option<SecretString>,
    /// Where the profile file is: `$XDG_CONFIG_HOME/tollgate`. Absent on a host without homes.
    pub config_dir: Option<PathBuf>,
    /// The data directory of a gateway on this host: `TOLLGATE_DATA_DIR`, else
    /// `$XDG_DATA_HOME/tollgate`.
    pub data_dir: Option<PathBuf>,
    /// Whether stdout takes colour: it is a terminal and `NO_COLOR` is not set.
    pub colour: bool,
    /// Whether a terminal shows more than ASCII: the locale is UTF-8, and `TERM` is not `dumb`.
    pub unicode: bool,
    /// How many columns stdout has; absent if it is not a terminal.
    pub width: Option<u16>,
    /// Whether a person can be asked: stdin and stderr are terminals.
    pub interactive: bool,
    /// When the command was started.
    pub now: Timestamp,
}

/// A gateway's admin address, and the token to present there.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`, for [`proto::client::connect`].
    pub server: String,
    /// The certificate authorities to trust there, in PEM; absent for the host's own.
    pub ca_file: Option<PathBuf>,
    /// The token, if any is known for that server.
    pub token: Option<SecretString>,
    /// Where the token was found.
    pub source: TokenSource,
}

/// Where a token was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// Nowhere.
    Nowhere,
    /// In the file that `--token-file` or `TOLLGATE_TOKEN_FILE` names.
    File(PathBuf),
    /// In `TOLLGATE_TOKEN`.
    Variable,
    /// In the profile file: a session that `ctl login` opened.
    Profile,
    /// In the data directory of the gateway on this host: its operator token.
    Operator,
}

/// What the command line says of the gateway that is meant and who asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// `--server`: its address.
    pub server: Option<&'a str>,
    /// `--gateway`: the profile that names it.
    pub profile: Option<&'a str>,
    /// `--token-file`: where the token is.
    pub token_file: Option<&'a Path>,
    /// `--ca-file`: whose certificates are trusted.
    pub ca_file: Option<&'a Path>,
}

/// Finds the endpoint from the flags given, the process's environment and the profile file.
///
/// # Errors
/// The server is no address, or a file that should hold the token cannot be read.
pub fn resolve(
    server_flag: Option<&str>,
    token_file_flag: Option<&Path>,
) -> Result<Endpoint, Failure> {
    Environment::of_process().resolve(server_flag, token_file_flag)
}

/// Finds the endpoint as [`resolve`] does, for somebody who may sign in: where the token file cannot be
/// read, the endpoint is that of [`Environment::choose_for_sign_in`], and the failure is returned beside it.
///
/// # Errors
/// The server is no address, or the profile file cannot be read.
pub fn resolve_for_sign_in(
    server_flag: Option<&str>,
    token_file_flag: Option<&Path>,
) -> Result<(Endpoint, Option<Failure>), Failure> {
    let choice = Choice { server: server_flag, token_file: token_file_flag, ..Choice::default() };
    Environment::of_process().choose_for_sign_in(choice)
}

/// Keeps a session in the profile file of the process's user; it is the default server from now on.
///
/// # Errors
/// The profile file cannot be written.
pub fn remember(server: &str, account: &str, token: &SecretString) -> Result<(), Failure> {
    Environment::of_process().remember(server, account, token)
}

/// Drops the session with `server` from the profile file of the process's user.
///
/// # Errors
/// The profile file cannot be written.
pub fn forget(server: &str) -> Result<(), Failure> {
    Environment::of_process().forget(server)
}

// === impl Environment ===

impl Environment {
    /// Reads the process's environment.
    #[expect(clippy::disallowed_methods, reason = "the one place where ctl reads the environment")]
    pub fn of_process() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name| set(name).map(|value| value.to_string_lossy().into_owned());
        let base = etcetera::choose_base_strategy().ok();
        let terminal = std::io::stdout().is_terminal();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let dumb = text("TERM").is_some_and(|terminal| terminal == "dumb");
        Self {
            server: text("TOLLGATE_SERVER"),
            token: text("TOLLGATE_TOKEN").map(|token| SecretString::from(token.trim())),
            token_file: set("TOLLGATE_TOKEN_FILE").map(PathBuf::from),
            profile: text("TOLLGATE_PROFILE"),
            ca_file: set("TOLLGATE_CA_FILE").map(PathBuf::from),
            complete: text("COMPLETE").filter(|shell| shell != "0"),
            api_key: text("TOLLGATE_API_KEY").map(|key| SecretString::from(key.trim())),
            config_dir: base.as_ref().map(|base| base.config_dir().join("tollgate")),
            data_dir: set("TOLLGATE_DATA_DIR")
                .map(PathBuf::from)
                .or_else(|| base.as_ref().map(|base| base.data_dir().join("tollgate"))),
            colour: terminal && !dumb && set("NO_COLOR").is_none(),
            unicode: !dumb && (locale.contains("utf-8") || locale.contains("utf8")),
            // A terminal that does not say how wide it is has 0 columns.
            width: comfy_table::Table::new()
                .width()
                .filter(|_| terminal)
                .map(|width| if width == 0 { 80 } else { width }),
            interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            now: clock::now(),
        }
    }

    /// Returns an environment with no variable set, no terminal, and both directories under `home`
    /// (`.config/tollgate` and `.local/share/tollgate`). For running `ctl` in process.
    pub fn within(home: &Path) -> Self {
        Self {
            server: None,
            token: None,
            token_file: None,
            profile: None,
            ca_file: None,
            complete: None,
            api_key: None,
            config_dir: Some(home.join(".config/tollgate")),
            data_dir: Some(home.join(".local/share/tollgate")),
            colour: false,
            unicode: true,
            width: None,
            interactive: false,
            now: clock::now(),
        }
    }

    /// Does what [`resolve`] does, in this environment.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn resolve(
        &self,
        server_flag: Option<&str>,
        token_file_flag: Option<&Path>,
    ) -> Result<Endpoint, Failure> {
        self.choose(Choice {
            server: server_flag,
            token_file: token_file_flag,
            ..Choice::default()
        })
    }

    /// Finds the endpoint that is meant, and the token to present there.
    ///
    /// # Errors
    /// As [`resolve`]; also if a profile is named that is not there.
    pub fn choose(&self, choice: Choice<'_>) -> Result<Endpoint, Failure> {
        let stranger = self.gateway(choice)?;
        let (token, source) = if let Some(path) = choice.token_file {
            (Some(read_token(path)?), TokenSource::File(path.to_owned()))
        } else if let Some(token) = &self.token {
            (Some(token.clone()), TokenSource::Variable)
        } else if let Some(path) = &self.token_file {
            let token = read_token(path).map_err(|failure| failure.advise(UNSET_TOKEN_FILE))?;
            (Some(token), TokenSource::File(path.clone()))
        } else if let Some(session) = self.profile_file()?.sessions.remove(&stranger.server) {
            (Some(SecretString::from(session.token)), TokenSource::Profile)
        } else if let Some(token) = self.operator_token(&stranger.server) {
            (Some(token), TokenSource::Operator)
        } else {
            (None, TokenSource::Nowhere)
        };
        Ok(Endpoint { token, source, ..stranger })
    }

    /// Finds the endpoint for a command that can sign in, which a token file that cannot be read does not
    /// stop: returns why it cannot be read beside the endpoint.
    ///
    /// A file that can be written gets the new session, so the caller presents no token. One that cannot
    /// (a variable from another shell or an earlier gateway names it) counts as not named.
    ///
    /// # Errors
    /// As [`Self::choose`], token files aside.
    pub fn choose_for_sign_in(
        &self,
        choice: Choice<'_>,
    ) -> Result<(Endpoint, Option<Failure>), Failure> {
        let failure = match self.choose(choice) {
            Err(failure) if failure.exit() == Exit::NotAllowed => failure,
            other => return other.map(|endpoint| (endpoint, None)),
        };
        let is_usable = |path: &PathBuf| ensure_token_writable(path).is_ok();
        let endpoint =
            if choice.token_file.is_some() || self.token_file.as_ref().is_some_and(is_usable) {
                self.gateway(choice)?
            } else {
                Self { token_file: None, ..self.clone() }.choose(choice)?
            };
        Ok((endpoint, Some(failure)))
    }

    /// Returns the gateway that is meant, without a token: flags, environment, profile file,
    /// [`DEFAULT_SERVER`].
    ///
    /// # Errors
    /// It is no address, a profile is named that is not there, or the profile file cannot be read.
    pub fn gateway(&self, choice: Choice<'_>) -> Result<Endpoint, Failure> {
        let named = |name: &str| -> Result<_, Failure> {
            Ok(self.profile_file()?.named(name)?.server.clone())
        };
        let server = match (choice, &self.server, &self.profile) {
            (Choice { server: Some(server), .. }, _, _) => address(server)?,
            (Choice { profile: Some(name), .. }, _, _) => named(name)?,
            (_, Some(server), _) => address(server)?,
            (_, _, Some(name)) => named(name)?,
            _ => self.profile_file()?.server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
        };
        let ca_file = match choice.ca_file.or(self.ca_file.as_deref()) {
            Some(path) => Some(path.to_owned()),
            None if server.starts_with("https:") => {
                let mut profiles = self.profile_file()?.profiles.into_values();
                profiles.find(|profile| profile.server == server).and_then(|it| it.ca_file)
            }
            None => None,
        };
        Ok(Endpoint { server, ca_file, token: None, source: TokenSource::Nowhere })
    }

    /// Does what [`remember`] does, in this environment.
    ///
    /// # Errors
    /// As [`remember`].
    pub fn remember(
        &self,
        server: &str,
        account: &str,
        token: &SecretString,
    ) -> Result<(), Failure> {
        let server = address(server)?;
        let session =
            Session { account: account.to_owned(), token: token.expose_secret().to_owned() };
        self.change(|file| {
            file.server = Some(server.clone());
            file.sessions.insert(server, session);
            Ok(())
        })
    }

    /// Makes sure that [`Self::remember`] will be able to write the profile file.
    pub(crate) fn ensure_profile_writable(&self) -> Result<(), Failure> {
        ProfileFile::ensure_writable(self.profile_dir()?)
    }

    /// Does what [`forget`] does, in this environment.
    ///
    /// # Errors
    /// As [`forget`].
    pub fn forget(&self, server: &str) -> Result<(), Failure> {
        let server = address(server)?;
        self.change(|file| {
            file.sessions.remove(&server);
            Ok(())
        })
    }

    /// Names a gateway, or gives the profile of that name another address.
    pub(crate) fn set_profile(&self, name: &str, profile: Profile) -> Result<Profile, Failure> {
        let profile = Profile { server: address(&profile.server)?, ..profile };
        let kept = profile.clone();
        self.change(|file| {
            file.profiles.insert(name.to_owned(), profile);
            Ok(())
        })?;
        Ok(kept)
    }

    /// Makes the gateway of a profile the one that is meant if none is named.
    pub(crate) fn use_profile(&self, name: &str) -> Result<Profile, Failure> {
        self.change(|file| {
            let profile = file.named(name)?.clone();
            file.server = Some(profile.server.clone());
            Ok(profile)
        })
    }

    /// Forgets a profile; a session with its gateway stays. Without one, that gateway is no longer the one
    /// that is meant if none is named.
    pub(crate) fn remove_profile(&self, name: &str) -> Result<(), Failure> {
        self.change(|file| {
            let server = file.named(name)?.server.clone();
            file.profiles.remove(name);
            if !file.sessions.contains_key(&server) && file.server.as_ref() == Some(&server) {
                file.server = None;
            }
            Ok(())
        })
    }

    /// Reads the profile file; on a host without homes it is empty.
    pub(crate) fn profile_file(&self) -> Result<ProfileFile, Failure> {
        self.config_dir.as_deref().map_or_else(|| Ok(ProfileFile::default()), ProfileFile::read)
    }

    fn change<T>(
        &self,
        edit: impl FnOnce(&mut ProfileFile) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        ProfileFile::change(self.profile_dir()?, edit)
    }

    fn profile_dir(&self) -> Result<&Path, Failure> {
        self.config_dir.as_deref().ok_or_else(|| {
            Failure::new(Exit::Failed, "there is no home directory for the profile")
                .advise("set HOME or XDG_CONFIG_HOME, or use --token-file FILE")
        })
    }

    /// Where a gateway on this host keeps its operator token.
    pub(crate) fn operator_token_file(&self) -> Option<PathBuf> {
        self.data_dir.as_ref().map(|dir| dir.join(OPERATOR_TOKEN))
    }

    /// Where the operator token for `server` is, if that is on this host and this user may read it.
    pub(crate) fn operator_token_for(&self, server: &str) -> Option<PathBuf> {
        self.operator_token(server).and_then(|_| self.operator_token_file())
    }

    /// The operator token of a gateway on this host, if this user may read it.
    fn operator_token(&self, server: &str) -> Option<SecretString> {
        let path = self.operator_token_file()?;
        if is_local(server) { read_token(&path).ok() } else { None }
    }
}

impl Endpoint {
    /// Reads the certificates to trust instead of the host's and the public ones, in PEM; `None` if no file
    /// is named.
    ///
    /// # Errors
    /// The file cannot be read, or holds no certificate.
    pub fn authorities(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.ca_file.as_deref().map(read_authorities).transpose()
    }

    /// Returns the same gateway for somebody who presents no token.
    pub(crate) fn stranger(&self) -> Self {
        Self { token: None, source: TokenSource::Nowhere, ..self.clone() }
    }
}

/// Reads a PEM file of certificates, and checks that it is one.
pub(crate) fn read_authorities(path: &Path) -> Result<Vec<u8>, Failure> {
    let advice = "name the authority's certificate (PEM) with --ca-file FILE";
    let pem = std::fs::read(path)
        .map_err(|error| Failure::file("reading", path, &error).advise(advice))?;
    Trust::only(&pem).map_err(|error| {
        let message = format!("`{}` cannot be trusted: {error}", path.display());
        Failure::new(Exit::Failed, message).advise(advice)
    })?;
    Ok(pem)
}
