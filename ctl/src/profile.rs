//! Which gateway is meant, and who asks: flags, environment, profile file and the local operator
//! token, in falling precedence.
//!
//! The only module that reads the environment ([`Environment::of_process`]) or touches a token on
//! disk. A session is kept under the server that gave it and is never sent to another. Start at
//! [`resolve`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tonic::transport::Uri;

use crate::clock;
use crate::error::{Exit, Failure};

/// Where a gateway on this host listens by default.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:8081";

/// The file in a gateway's data directory that holds its operator token.
const OPERATOR_TOKEN: &str = "operator.token";

/// All that `ctl` takes from the process it runs in, besides arguments and streams.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `TOLLGATE_SERVER`.
    pub server: Option<String>,
    /// `TOLLGATE_TOKEN`.
    pub token: Option<SecretString>,
    /// `TOLLGATE_TOKEN_FILE`.
    pub token_file: Option<PathBuf>,
    /// `TOLLGATE_API_KEY`: what clients of the API present, and ctl only to check that they can.
    pub api_key: Option<SecretString>,
    /// Where the profile file is: `$XDG_CONFIG_HOME/tollgate`. Absent on a host without homes.
    pub config_dir: Option<PathBuf>,
    /// The gateway's default data directory: `$XDG_DATA_HOME/tollgate`.
    pub data_dir: Option<PathBuf>,
    /// Whether stdout takes colour: it is a terminal and `NO_COLOR` is not set.
    pub colour: bool,
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

/// The profile file.
#[derive(Default, Serialize, Deserialize)]
struct Profile {
    /// The server that was signed in to last; the one that is meant if none is named.
    server: Option<String>,
    /// A session per server.
    #[serde(default)]
    sessions: BTreeMap<String, Session>,
}

/// A session as the profile file keeps it.
#[derive(Serialize, Deserialize)]
struct Session {
    account: String,
    token: String,
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
        Self {
            server: text("TOLLGATE_SERVER"),
            token: text("TOLLGATE_TOKEN").map(|token| SecretString::from(token.trim())),
            token_file: set("TOLLGATE_TOKEN_FILE").map(PathBuf::from),
            api_key: text("TOLLGATE_API_KEY").map(|key| SecretString::from(key.trim())),
            config_dir: base.as_ref().map(|base| base.config_dir().join("tollgate")),
            data_dir: base.as_ref().map(|base| base.data_dir().join("tollgate")),
            colour: terminal && set("NO_COLOR").is_none(),
            width: comfy_table::Table::new().width().filter(|_| terminal),
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
            api_key: None,
            config_dir: Some(home.join(".config/tollgate")),
            data_dir: Some(home.join(".local/share/tollgate")),
            colour: false,
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
        let server = self.server(server_flag)?;
        let (token, source) = if let Some(path) = token_file_flag {
            (Some(read_token(path)?), TokenSource::File(path.to_owned()))
        } else if let Some(token) = &self.token {
            (Some(token.clone()), TokenSource::Variable)
        } else if let Some(path) = &self.token_file {
            (Some(read_token(path)?), TokenSource::File(path.clone()))
        } else if let Some(session) = self.profile()?.sessions.remove(&server) {
            (Some(SecretString::from(session.token)), TokenSource::Profile)
        } else if let Some(token) = self.operator_token(&server) {
            (Some(token), TokenSource::Operator)
        } else {
            (None, TokenSource::Nowhere)
        };
        Ok(Endpoint { server, token, source })
    }

    /// Returns the server that is meant: flag, environment, profile, [`DEFAULT_SERVER`].
    ///
    /// # Errors
    /// It is no address, or the profile file cannot be read.
    pub fn server(&self, flag: Option<&str>) -> Result<String, Failure> {
        match flag.or(self.server.as_deref()) {
            Some(server) => address(server),
            None => Ok(self.profile()?.server.unwrap_or_else(|| DEFAULT_SERVER.to_owned())),
        }
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
        self.change(|profile| {
            profile.server = Some(server.clone());
            profile.sessions.insert(server, session);
        })
    }

    /// Does what [`forget`] does, in this environment.
    ///
    /// # Errors
    /// As [`forget`].
    pub fn forget(&self, server: &str) -> Result<(), Failure> {
        let server = address(server)?;
        self.change(|profile| {
            profile.sessions.remove(&server);
        })
    }

    fn profile_path(&self) -> Option<PathBuf> {
        self.config_dir.as_ref().map(|dir| dir.join("profile.toml"))
    }

    fn profile(&self) -> Result<Profile, Failure> {
        let Some(path) = self.profile_path() else { return Ok(Profile::default()) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Profile::default()),
            Err(error) => return Err(Failure::file("reading", &path, &error)),
        };
        // Not the whole error: it quotes the line, and with it perhaps the token.
        toml::from_str(&text).map_err(|error| {
            let message = format!("reading `{}`: {}", path.display(), error.message());
            Failure::new(Exit::Failed, message).advise("mend the file, or remove it and sign in")
        })
    }

    /// Reads, changes and replaces the profile file, alone among all `ctl`s of this user.
    fn change(&self, edit: impl FnOnce(&mut Profile)) -> Result<(), Failure> {
        let (Some(dir), Some(path)) = (&self.config_dir, self.profile_path()) else {
            let advice = "set HOME or XDG_CONFIG_HOME, or use --token-file FILE";
            return Err(Failure::new(Exit::Failed, "there is no home directory for the profile")
                .advise(advice));
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| Failure::file("making", dir, &error))?;
        let turn = dir.join("profile.lock");
        let _turn = File::create(&turn)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| Failure::file("locking", &turn, &error))?;
        let mut profile = self.profile()?;
        edit(&mut profile);
        let text = toml::to_string_pretty(&profile)
            .map_err(|error| Failure::new(Exit::Failed, format!("writing the profile: {error}")))?;
        write_private(&path, &text)
    }

    /// The operator token of a gateway on this host, if this user may read it.
    fn operator_token(&self, server: &str) -> Option<SecretString> {
        let path = self.data_dir.as_ref()?.join(OPERATOR_TOKEN);
        if is_local(server) { read_token(&path).ok() } else { None }
    }
}

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

fn read_token(path: &Path) -> Result<SecretString, Failure> {
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
fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
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

/// Checks an address and brings it to the one form that sessions are kept under.
fn address(server: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::usage(format!("`{server}` is not the address of a gateway"))
            .advise("give http://HOST:PORT, https://HOST:PORT or unix:/PATH")
    };
    if let Some(path) = server.strip_prefix("unix:") {
        return if path.starts_with('/') { Ok(server.to_owned()) } else { Err(wrong()) };
    }
    let uri: Uri = server.parse().map_err(|_| wrong())?;
    match (uri.scheme_str(), uri.authority(), uri.path(), uri.query()) {
        (Some(scheme @ ("http" | "https")), Some(authority), "/", None)
            if !authority.as_str().contains('@') =>
        {
            Ok(format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()))
        }
        _ => Err(wrong()),
    }
}

/// Says whether an address can only be on this host.
fn is_local(server: &str) -> bool {
    if server.starts_with("unix:") {
        return true;
    }
    let uri = server.parse::<Uri>().ok();
    let Some(host) = uri.as_ref().and_then(Uri::host) else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{address, is_local};

    #[test]
    fn addresses_have_one_form() {
        for (given, kept) in [
            ("http://127.0.0.1:8081", Some("http://127.0.0.1:8081")),
            ("http://Gate.example:1/", Some("http://gate.example:1")),
            ("https://gate.example", Some("https://gate.example")),
            ("unix:/run/tollgate.sock", Some("unix:/run/tollgate.sock")),
            ("unix:run/tollgate.sock", None),
            ("127.0.0.1:8081", None),
            ("ftp://gate.example", None),
            ("http://user@gate.example", None),
            ("http://gate.example/v1", None),
            ("", None),
        ] {
            assert_eq!(address(given).ok().as_deref(), kept, "{given}");
        }
    }

    #[test]
    fn only_this_host_is_local() {
        for (server, local) in [
            ("http://127.0.0.1:8081", true),
            ("http://127.9.9.9:1", true),
            ("http://[::1]:8081", true),
            ("http://localhost:8081", true),
            ("unix:/run/tollgate.sock", true),
            ("http://10.0.0.1:8081", false),
            ("https://localhost.example", false),
            ("http://[2001:db8::1]:8081", false),
        ] {
            assert_eq!(is_local(server), local, "{server}");
        }
    }
}
