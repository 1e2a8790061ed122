//! Selects the gateway and the token: flags, environment, profile file and the local operator
//! token, in descending precedence.
//!
//! The only module that reads the environment ([`Environment::of_process`]) or accesses a token on
//! disk. Invariant: a session token is stored under the address of its gateway and never sent to
//! another. Start at [`resolve`]; `environment` is what the process knows, `file` is the profile file,
//! `address` normalizes addresses, `secret_file` stores tokens.

mod address;
mod environment;
mod file;
mod secret_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::client::TlsOptions;
use secrecy::{ExposeSecret, SecretString};
use trust::{Identity, Trust};
use zeroize::Zeroizing;

use crate::error::{Exit, Failure};
use address::normalize;
use file::Session;
use secret_file::{OPERATOR_TOKEN, read_token};

pub(crate) use address::is_local;
pub use environment::Environment;
pub(crate) use file::{Profile, ProfileFile};
pub(crate) use secret_file::{ensure_token_writable, is_operator_token, remove_token, write_token};

/// The default admin address of a gateway on this host.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:8081";

const UNSET_TOKEN_FILE: &str = "unset TOLLGATE_TOKEN_FILE, or sign in with `ctl login NAME`";

/// A gateway's admin address, and the token for it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`, for [`proto::client::connect`].
    pub server: String,
    /// The PEM file of certificate authorities to trust; `None` for those of the host.
    pub ca_file: Option<PathBuf>,
    /// The PEM file of the client's certificate chain and its key, if the gateway demands one.
    pub identity_file: Option<PathBuf>,
    /// The token for that server, if any.
    pub token: Option<SecretString>,
    /// The source of the token.
    pub source: TokenSource,
}

/// The source of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// There is no token.
    Missing,
    /// The file in `--token-file` or `TOLLGATE_TOKEN_FILE`.
    File(PathBuf),
    /// The variable `TOLLGATE_TOKEN`.
    Variable,
    /// The profile file, with a session of `ctl login`.
    Profile,
    /// The operator token in the data directory of a gateway on this host.
    Operator,
}

/// The command-line flags that select the gateway and the token.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointFlags<'a> {
    /// `--server`: the admin address.
    pub server: Option<&'a str>,
    /// `--gateway`: the name of a profile.
    pub profile: Option<&'a str>,
    /// `--token-file`: the file that holds the token.
    pub token_file: Option<&'a Path>,
    /// `--ca-file`: the PEM file of certificate authorities to trust.
    pub ca_file: Option<&'a Path>,
    /// `--identity-file`: the PEM file of the client's certificate and key.
    pub identity_file: Option<&'a Path>,
}

/// Resolves the endpoint from flags, the environment of the process and the profile file.
///
/// # Errors
/// The server address is invalid, or the token file cannot be read.
pub fn resolve(
    server_flag: Option<&str>,
    token_file_flag: Option<&Path>,
) -> Result<Endpoint, Failure> {
    Environment::of_process().resolve(server_flag, token_file_flag)
}

/// Resolves the endpoint as [`resolve`] does, but for a program that can sign in: an unreadable
/// token file is not fatal, and its failure is returned beside the endpoint of
/// [`Environment::resolve_for_sign_in`].
///
/// # Errors
/// The server address is invalid, or the profile file cannot be read.
pub fn resolve_for_sign_in(
    server_flag: Option<&str>,
    token_file_flag: Option<&Path>,
) -> Result<(Endpoint, Option<Failure>), Failure> {
    let flags = EndpointFlags {
        server: server_flag,
        token_file: token_file_flag,
        ..EndpointFlags::default()
    };
    Environment::of_process().resolve_for_sign_in(flags)
}

/// Saves a session in the user's profile file, and makes `server` the default gateway.
///
/// # Errors
/// The profile file cannot be written.
pub fn save_session(server: &str, account: &str, token: &SecretString) -> Result<(), Failure> {
    Environment::of_process().save_session(server, account, token)
}

/// Removes the session with `server` from the user's profile file.
///
/// # Errors
/// The profile file cannot be written.
pub fn remove_session(server: &str) -> Result<(), Failure> {
    Environment::of_process().remove_session(server)
}

// === impl Environment ===

impl Environment {
    /// Like [`resolve`], in this environment.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn resolve(
        &self,
        server_flag: Option<&str>,
        token_file_flag: Option<&Path>,
    ) -> Result<Endpoint, Failure> {
        self.resolve_flags(EndpointFlags {
            server: server_flag,
            token_file: token_file_flag,
            ..EndpointFlags::default()
        })
    }

    /// Resolves the gateway and the token.
    ///
    /// # Errors
    /// As [`resolve`]; also if the named profile does not exist.
    pub fn resolve_flags(&self, flags: EndpointFlags<'_>) -> Result<Endpoint, Failure> {
        let gateway = self.gateway(flags)?;
        let (token, source) = if let Some(path) = flags.token_file {
            (Some(read_token(path)?), TokenSource::File(path.to_owned()))
        } else if let Some(token) = &self.token {
            (Some(token.clone()), TokenSource::Variable)
        } else if let Some(path) = &self.token_file {
            let token = read_token(path).map_err(|failure| failure.advise(UNSET_TOKEN_FILE))?;
            (Some(token), TokenSource::File(path.clone()))
        } else if let Some(session) = self.profile_file()?.sessions.remove(&gateway.server) {
            (Some(SecretString::from(session.token)), TokenSource::Profile)
        } else if let Some(token) = self.operator_token(&gateway.server) {
            (Some(token), TokenSource::Operator)
        } else {
            (None, TokenSource::Missing)
        };
        Ok(Endpoint { token, source, ..gateway })
    }

    /// Resolves the endpoint for a command that can sign in: if the token file cannot be read,
    /// returns that failure beside the endpoint.
    ///
    /// A writable token file will hold the new session, so the endpoint has no token. A file that
    /// cannot be written (for example named by a variable of another shell or an earlier gateway)
    /// is ignored.
    ///
    /// # Errors
    /// As [`Self::resolve_flags`], except for token files.
    pub fn resolve_for_sign_in(
        &self,
        flags: EndpointFlags<'_>,
    ) -> Result<(Endpoint, Option<Failure>), Failure> {
        let failure = match self.resolve_flags(flags) {
            Err(failure) if failure.exit() == Exit::NotAllowed => failure,
            other => return other.map(|endpoint| (endpoint, None)),
        };
        let is_writable = |path: &PathBuf| ensure_token_writable(path).is_ok();
        let endpoint =
            if flags.token_file.is_some() || self.token_file.as_ref().is_some_and(is_writable) {
                self.gateway(flags)?
            } else {
                Self { token_file: None, ..self.clone() }.resolve_flags(flags)?
            };
        Ok((endpoint, Some(failure)))
    }

    /// Returns the selected gateway, without a token: from flags, environment, profile file or
    /// [`DEFAULT_SERVER`].
    ///
    /// # Errors
    /// The address is invalid, the named profile does not exist, or the profile file cannot be
    /// read.
    pub fn gateway(&self, flags: EndpointFlags<'_>) -> Result<Endpoint, Failure> {
        let profile_server = |name: &str| -> Result<_, Failure> {
            Ok(self.profile_file()?.profile(name)?.server.clone())
        };
        let server = match (flags, &self.server, &self.profile) {
            (EndpointFlags { server: Some(server), .. }, _, _) => normalize(server)?,
            (EndpointFlags { profile: Some(name), .. }, _, _) => profile_server(name)?,
            (_, Some(server), _) => normalize(server)?,
            (_, _, Some(name)) => profile_server(name)?,
            _ => self.profile_file()?.server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
        };
        let mut ca_file = flags.ca_file.or(self.ca_file.as_deref()).map(Path::to_owned);
        let identity_file = flags.identity_file.or(self.identity_file.as_deref());
        let mut identity_file = identity_file.map(Path::to_owned);
        if server.starts_with("https:") && (ca_file.is_none() || identity_file.is_none()) {
            let mut profiles = self.profile_file()?.profiles.into_values();
            if let Some(profile) = profiles.find(|profile| profile.server == server) {
                ca_file = ca_file.or(profile.ca_file);
                identity_file = identity_file.or(profile.identity_file);
            }
        }
        let (token, source) = (None, TokenSource::Missing);
        Ok(Endpoint { server, ca_file, identity_file, token, source })
    }

    /// Like [`save_session`], in this environment.
    ///
    /// # Errors
    /// As [`save_session`].
    pub fn save_session(
        &self,
        server: &str,
        account: &str,
        token: &SecretString,
    ) -> Result<(), Failure> {
        let server = normalize(server)?;
        let session =
            Session { account: account.to_owned(), token: token.expose_secret().to_owned() };
        self.change(|file| {
            file.server = Some(server.clone());
            file.sessions.insert(server, session);
            Ok(())
        })
    }

    /// Checks that [`Self::save_session`] can write the profile file.
    pub(crate) fn ensure_profile_writable(&self) -> Result<(), Failure> {
        ProfileFile::ensure_writable(self.profile_dir()?)
    }

    /// Like [`remove_session`], in this environment.
    ///
    /// # Errors
    /// As [`remove_session`].
    pub fn remove_session(&self, server: &str) -> Result<(), Failure> {
        let server = normalize(server)?;
        self.change(|file| {
            file.sessions.remove(&server);
            Ok(())
        })
    }

    /// Creates or replaces a profile; returns it with a normalized address.
    pub(crate) fn set_profile(&self, name: &str, profile: Profile) -> Result<Profile, Failure> {
        let profile = Profile { server: normalize(&profile.server)?, ..profile };
        let stored = profile.clone();
        self.change(|file| {
            file.profiles.insert(name.to_owned(), profile);
            Ok(())
        })?;
        Ok(stored)
    }

    /// Makes the gateway of a profile the default.
    pub(crate) fn use_profile(&self, name: &str) -> Result<Profile, Failure> {
        self.change(|file| {
            let profile = file.profile(name)?.clone();
            file.server = Some(profile.server.clone());
            Ok(profile)
        })
    }

    /// Removes a profile; a session with its gateway stays. Without such a session, the gateway is
    /// no longer the default.
    pub(crate) fn remove_profile(&self, name: &str) -> Result<(), Failure> {
        self.change(|file| {
            let server = file.profile(name)?.server.clone();
            file.profiles.remove(name);
            if !file.sessions.contains_key(&server) && file.server.as_ref() == Some(&server) {
                file.server = None;
            }
            Ok(())
        })
    }

    /// Reads the profile file; empty without a home directory.
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

    /// Returns the path of the operator token of a gateway on this host.
    pub(crate) fn operator_token_file(&self) -> Option<PathBuf> {
        self.data_dir.as_ref().map(|dir| dir.join(OPERATOR_TOKEN))
    }

    /// Returns the path of the operator token for `server`, if it is on this host and readable.
    pub(crate) fn operator_token_for(&self, server: &str) -> Option<PathBuf> {
        self.operator_token(server).and_then(|_| self.operator_token_file())
    }

    /// Reads the operator token for `server`, if it is on this host and readable.
    fn operator_token(&self, server: &str) -> Option<SecretString> {
        let path = self.operator_token_file()?;
        if is_local(server) { read_token(&path).ok() } else { None }
    }
}

impl Endpoint {
    /// Reads the PEM certificates to trust instead of the host's and the public ones; `None`
    /// without a CA file.
    ///
    /// # Errors
    /// The file cannot be read, or contains no certificate.
    pub fn authorities(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.ca_file.as_deref().map(read_authorities).transpose()
    }

    /// Returns the certificates of connections to the admin plane.
    ///
    /// # Errors
    /// A file cannot be read, or has the wrong contents.
    pub fn tls(&self) -> Result<TlsOptions, Failure> {
        Ok(TlsOptions {
            authorities: self.authorities()?.map(Arc::from),
            identity: self.identity_file.as_deref().map(read_identity).transpose()?,
        })
    }

    /// Returns the same gateway without the token, for unauthenticated calls.
    pub(crate) fn without_token(&self) -> Self {
        Self { token: None, source: TokenSource::Missing, ..self.clone() }
    }
}

impl Profile {
    /// Reads the files of certificates.
    ///
    /// # Errors
    /// A file cannot be read, or has the wrong contents.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.ca_file.as_deref().map(read_authorities).transpose()?;
        self.identity_file.as_deref().map(read_identity).transpose()?;
        Ok(())
    }
}

/// Reads a PEM file of a certificate chain and its key.
fn read_identity(path: &Path) -> Result<Identity, Failure> {
    let advice = "give a PEM file of a certificate and its private key with --identity-file FILE";
    let pem = std::fs::read(path).map(Zeroizing::new);
    let pem = pem.map_err(|error| Failure::file("reading", path, &error).advise(advice))?;
    Identity::new(&pem, &pem).map_err(|error| {
        let message = format!("`{}` cannot be used: {error}", path.display());
        Failure::new(Exit::Failed, message).advise(advice)
    })
}

/// Reads and validates a PEM file of certificates.
pub(crate) fn read_authorities(path: &Path) -> Result<Vec<u8>, Failure> {
    let advice = "give the CA certificate (PEM) with --ca-file FILE";
    let pem = std::fs::read(path)
        .map_err(|error| Failure::file("reading", path, &error).advise(advice))?;
    Trust::only(&pem).map_err(|error| {
        let message = format!("`{}` cannot be trusted: {error}", path.display());
        Failure::new(Exit::Failed, message).advise(advice)
    })?;
    Ok(pem)
}
