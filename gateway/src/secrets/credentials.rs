//! The upstreams' credentials in memory. They are resolved at start and when an upstream changes,
//! never per request.
//!
//! A failure is kept as a message, which must not contain the credential.

use std::sync::Arc;

use arc_swap::ArcSwap;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncReadExt;
use zeroize::Zeroizing;

use super::seal::Sealer;
use domain::upstream::{CredentialSource, Upstream};

/// The maximum number of bytes read from a credential file.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The secrets of an upstream.
#[derive(Clone, Debug, Default)]
pub struct UpstreamSecrets {
    /// The credentials, in the order of the catalogue entry; empty if the upstream requires none. Invariant: if
    /// there are any, at least one is resolved.
    pub credentials: Vec<ResolvedCredential>,
    /// The private key of the gateway's certificate, in PEM.
    pub client_key: Option<SecretString>,
    /// The password for its proxy.
    pub proxy_password: Option<SecretString>,
}

/// A credential, or the reason why it could not be resolved.
pub type ResolvedCredential = Result<SecretString, String>;

/// The secrets of an upstream, or the reason why they could not be resolved.
pub type ResolvedSecrets = Result<UpstreamSecrets, String>;

/// The credentials of all upstreams. Reads take no lock.
///
/// Each belongs to one version of a catalogue entry, so that a request with an outdated entry never sends a new
/// credential to an old address.
pub struct Credentials {
    sealer: Arc<Sealer>,
    resolved: ArcSwap<Vec<Resolved>>,
}

/// The secrets of an upstream with this catalogue entry.
#[derive(Clone)]
struct Resolved {
    upstream: Arc<Upstream>,
    secrets: Arc<ResolvedSecrets>,
}

impl Credentials {
    /// Creates an empty set. [`Credentials::refresh`] must be called before use.
    pub fn new(sealer: Arc<Sealer>) -> Self {
        Self { sealer, resolved: ArcSwap::default() }
    }

    /// Returns the secrets of an upstream with exactly this address, proxy, sources and certificate; `None` if it is not
    /// known.
    pub fn find(&self, upstream: &Upstream) -> Option<Arc<ResolvedSecrets>> {
        let resolved = self.resolved.load();
        resolved.iter().find(|it| it.belongs_to(upstream)).map(|it| it.secrets.clone())
    }

    /// Returns the secrets of an upstream with exactly this address, proxy, sources and certificate, or why there are none.
    pub fn resolved(&self, upstream: &Upstream) -> ResolvedSecrets {
        match self.find(upstream) {
            Some(credential) => credential.as_ref().clone(),
            None => Err("its credential is not known yet".to_owned()),
        }
    }

    /// Returns why an upstream cannot be used; `None` if it can.
    pub fn unusable(&self, upstream: &Upstream) -> Option<String> {
        self.find(upstream)?.as_ref().as_ref().err().cloned()
    }

    /// Returns why an upstream, or some of its credentials, cannot be used; empty if all can.
    pub fn problem(&self, upstream: &Upstream) -> String {
        match self.find(upstream).as_deref() {
            Some(Err(problem)) => problem.clone(),
            Some(Ok(secrets)) => describe_problems(&secrets.credentials),
            None => String::new(),
        }
    }

    /// Returns for each credential of an upstream why it could not be resolved; `None` for those that could.
    pub fn problems(&self, upstream: &Upstream) -> Vec<Option<String>> {
        match self.find(upstream).as_deref() {
            Some(Ok(secrets)) => secrets.credentials.iter().map(|it| it.clone().err()).collect(),
            // None of them serves.
            Some(Err(problem)) => vec![Some(problem.clone()); upstream.credentials.len()],
            None => vec![None; upstream.credentials.len()],
        }
    }

    /// Resolves the credentials of `upstreams` and drops all others. Returns the upstreams whose credential is
    /// another one than before, although their entry is the same: that of a file, for example.
    pub async fn refresh(
        &self,
        upstreams: impl IntoIterator<Item = Arc<Upstream>> + Send,
    ) -> Vec<Arc<Upstream>> {
        let upstreams: Vec<_> = upstreams.into_iter().collect();
        let mut resolved = Vec::with_capacity(upstreams.len());
        let mut changed = Vec::new();
        for upstream in upstreams {
            let secrets = self.resolve(&upstream).await;
            let problem = match &secrets {
                Ok(secrets) => describe_problems(&secrets.credentials),
                Err(problem) => problem.clone(),
            };
            if !problem.is_empty() {
                tracing::warn!(event = "credential_unresolved", upstream = %upstream.name, problem, "cannot resolve a credential");
            }
            if self.find(&upstream).is_some_and(|before| !is_same(&before, &secrets)) {
                changed.push(upstream.clone());
            }
            resolved.push(Resolved { upstream, secrets: Arc::new(secrets) });
        }
        self.resolved.store(Arc::new(resolved));
        changed
    }

    /// Drops the credentials of all but `upstreams`.
    pub fn retain(&self, upstreams: &[Arc<Upstream>]) {
        let resolved = self.resolved.load();
        let is_kept = |it: &&Resolved| upstreams.iter().any(|upstream| it.belongs_to(upstream));
        self.resolved.store(Arc::new(resolved.iter().filter(is_kept).cloned().collect()));
    }

    /// Returns the sealer of stored secrets.
    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Encrypts a credential for the store.
    pub(crate) fn seal(&self, secret: &SecretString) -> CredentialSource {
        CredentialSource::Sealed(self.seal_bytes(secret))
    }

    /// Encrypts any secret of an upstream for the store.
    pub(crate) fn seal_bytes(&self, secret: &SecretString) -> Vec<u8> {
        self.sealer.seal(secret)
    }

    /// Decrypts a secret that [`seal_bytes`](Self::seal_bytes) encrypted.
    pub(crate) fn open_sealed(&self, sealed: &[u8]) -> Result<SecretString, String> {
        self.sealer.open_sealed(sealed).map_err(|error| error.to_string())
    }

    async fn resolve(&self, upstream: &Upstream) -> ResolvedSecrets {
        let key = upstream.client_certificate.as_ref();
        let client_key = key.map(|it| self.open_sealed(&it.sealed_key)).transpose()?;
        let mut credentials = Vec::with_capacity(upstream.credentials.len());
        for source in &upstream.credentials {
            credentials.push(self.resolve_checked(source, bearer_token_problem).await);
        }
        if !credentials.is_empty() && credentials.iter().all(Result::is_err) {
            return Err(describe_problems(&credentials));
        }
        let proxy_password = match upstream.proxy.login() {
            Some(login) => {
                let password = self.resolve_checked(&login.password, proxy_password_problem).await;
                Some(password.map_err(|problem| format!("the password for its proxy: {problem}"))?)
            }
            None => None,
        };
        Ok(UpstreamSecrets { credentials, client_key, proxy_password })
    }

    /// Resolves a secret. `problem` returns why it cannot be used; the text completes a sentence "it …".
    async fn resolve_checked(
        &self,
        source: &CredentialSource,
        problem: impl Fn(&SecretString) -> Option<&'static str>,
    ) -> ResolvedCredential {
        let (secret, from) = match source {
            CredentialSource::Env(name) => (read_env(name)?, format!("variable `{name}`")),
            CredentialSource::File(path) => (read_file(path).await?, format!("file `{path}`")),
            CredentialSource::Sealed(sealed) => {
                (self.open_sealed(sealed)?, "stored credential".to_owned())
            }
        };
        match problem(&secret) {
            None => Ok(secret),
            Some(problem) => Err(format!("the {from} {problem}")),
        }
    }
}

impl Resolved {
    fn belongs_to(&self, upstream: &Upstream) -> bool {
        let own = &*self.upstream;
        own.name == upstream.name
            && own.url == upstream.url
            && own.credentials == upstream.credentials
            && own.client_certificate == upstream.client_certificate
            && own.proxy == upstream.proxy
    }
}

fn is_same(one: &ResolvedSecrets, other: &ResolvedSecrets) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => {
            let is_same =
                |(one, other): (&ResolvedCredential, &ResolvedCredential)| match (one, other) {
                    (Ok(one), Ok(other)) => one.expose_secret() == other.expose_secret(),
                    (Err(one), Err(other)) => one == other,
                    (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
                };
            let passwords = one.proxy_password.iter().zip(&other.proxy_password);
            // The entries, and so the numbers of secrets, are equal. A key belongs to its certificate, which is part
            // of the entry.
            one.credentials.iter().zip(&other.credentials).all(is_same) && { passwords }
                .all(|(one, other)| one.expose_secret() == other.expose_secret())
        }
        (Err(one), Err(other)) => one == other,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

/// Describes the credentials that are not resolved, by number if there are several; empty if there are none.
fn describe_problems(credentials: &[ResolvedCredential]) -> String {
    let problems = (1..).zip(credentials).filter_map(|(number, credential)| {
        let problem = credential.as_ref().err()?;
        let is_only = credentials.len() == 1;
        Some(if is_only { problem.clone() } else { format!("credential {number}: {problem}") })
    });
    problems.collect::<Vec<_>>().join("; ")
}

/// Returns why `secret` cannot be sent as a bearer token; the text completes a sentence "it …".
pub(crate) fn bearer_token_problem(secret: &SecretString) -> Option<&'static str> {
    let text = secret.expose_secret();
    if text.is_empty() {
        return Some("is empty");
    }
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    (!visible).then_some("has spaces or other characters that a header cannot carry")
}

/// Returns why `secret` cannot be the password for a proxy; the text completes a sentence "it …".
pub(crate) fn proxy_password_problem(secret: &SecretString) -> Option<&'static str> {
    let text = secret.expose_secret();
    // RFC 1929 has one byte for the length.
    if text.is_empty() || text.len() > usize::from(u8::MAX) {
        return Some("has not 1 to 255 bytes");
    }
    text.chars().any(char::is_control).then_some("has control characters")
}

#[expect(clippy::disallowed_methods, reason = "an operator sets the variable's name at run time")]
fn read_env(name: &str) -> Result<SecretString, String> {
    match std::env::var(name).map(Zeroizing::new) {
        Ok(text) => Ok(text.trim().into()),
        Err(_) => Err(format!("environment variable `{name}` is not set for the gateway")),
    }
}

async fn read_file(path: &str) -> Result<SecretString, String> {
    let unreadable = |error: std::io::Error| format!("file `{path}` cannot be read: {error}");
    let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).await.map_err(unreadable)?;
    Ok(text.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::CountingEntropy;
    use domain::id::UpstreamName;
    use domain::upstream::{Proxy, ProxyChoice, ProxyLogin};
    use jiff::Timestamp;

    fn upstream(name: &str, credentials: &[CredentialSource]) -> Arc<Upstream> {
        let name = UpstreamName::new(name);
        let upstream = Upstream::new(name, "http://localhost", Timestamp::UNIX_EPOCH);
        Arc::new(Upstream { credentials: credentials.to_vec(), ..upstream })
    }

    #[tokio::test]
    async fn resolves_every_source_or_reports_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, " from-file\n").unwrap();
        let file = file.to_str().unwrap().to_owned();
        let sealer = Sealer::open(dir.path(), Arc::new(CountingEntropy::default())).unwrap();
        let credentials = Credentials::new(Arc::new(sealer));
        let mut broken = credentials.sealer.seal(&"hidden".into());
        broken.pop();
        let cases = [
            // Set by cargo for every test.
            (CredentialSource::Env("CARGO_PKG_NAME".into()), Ok("gateway")),
            (CredentialSource::Env("TOLLGATE_NO_SUCH".into()), Err("`TOLLGATE_NO_SUCH` is not")),
            (CredentialSource::File(file.clone()), Ok("from-file")),
            (CredentialSource::File(format!("{file}2")), Err("cannot be read")),
            (credentials.seal(&"sealed".into()), Ok("sealed")),
            (credentials.seal(&"two words".into()), Err("has spaces")),
            (CredentialSource::Sealed(broken), Err("set it again")),
        ];
        let name = |index: usize| UpstreamName::new(format!("u{index}"));
        let upstreams: Vec<_> = cases
            .iter()
            .enumerate()
            .map(|(index, (source, _))| {
                upstream(name(index).as_str(), std::slice::from_ref(source))
            })
            .collect();
        credentials.refresh(upstreams.clone()).await;
        for (index, (source, expected)) in cases.iter().enumerate() {
            let resolved = credentials.find(&upstreams[index]).unwrap();
            match (&*resolved, expected) {
                (Ok(secret), Ok(expected)) => {
                    let [Ok(credential)] = &secret.credentials[..] else { panic!("{source:?}") };
                    assert_eq!(credential.expose_secret(), *expected, "{source:?}");
                    assert_eq!(credentials.problem(&upstreams[index]), "");
                }
                (Err(problem), Err(part)) => {
                    assert!(problem.contains(part), "{problem}");
                    assert!(!problem.contains("hidden") && !problem.contains("two words"));
                }
                _ => panic!("{source:?}"),
            }
        }
        assert!(credentials.find(&upstream("u99", &[])).is_none());
        std::fs::write(&file, "rotated").unwrap();
        assert_eq!(credentials.refresh(upstreams.clone()).await, [upstreams[2].clone()]);
        assert_eq!(credentials.refresh(upstreams.clone()).await, []);
        credentials.retain(&upstreams[1..]);
        assert!(credentials.find(&upstreams[0]).is_none());
        assert!(credentials.find(&upstreams[1]).is_some());
    }

    /// Regression test: the credential of a changed entry could be sent to the address of the old one.
    #[tokio::test]
    async fn a_credential_belongs_to_one_address() {
        let dir = tempfile::tempdir().unwrap();
        let sealer = Sealer::open(dir.path(), Arc::new(CountingEntropy::default())).unwrap();
        let credentials = Credentials::new(Arc::new(sealer));
        let old = upstream("u", &[credentials.seal(&"old".into())]);
        let sources = vec![credentials.seal(&"new".into())];
        let new = Upstream { url: "https://new".into(), credentials: sources, ..(*old).clone() };
        let half_new = Upstream { url: new.url.clone(), ..(*old).clone() };
        credentials.refresh([old.clone(), Arc::new(new.clone())]).await;
        let secret = |upstream: &Upstream| match &*credentials.find(upstream)? {
            Ok(secrets) => Some(secrets.credentials[0].as_ref().ok()?.expose_secret().to_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(secret(&old).as_deref(), Some("old"));
        assert_eq!(secret(&new).as_deref(), Some("new"));
        assert_eq!(secret(&half_new), None);
    }

    #[tokio::test]
    async fn a_password_belongs_to_one_proxy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "old word\n").unwrap();
        let sealer = Sealer::open(dir.path(), Arc::new(CountingEntropy::default())).unwrap();
        let credentials = Credentials::new(Arc::new(sealer));
        let through = |url: &str| {
            let password = CredentialSource::File(file.to_str().unwrap().to_owned());
            let login = Some(ProxyLogin { user: "user".to_owned(), password });
            let proxy = ProxyChoice::Configured(Proxy { url: url.to_owned(), login });
            Arc::new(Upstream { proxy, ..(*upstream("u", &[])).clone() })
        };
        let (entry, other) = (through("http://p:1"), through("http://q:1"));
        let password = |upstream: &Upstream| match &*credentials.find(upstream)? {
            Ok(secrets) => Some(secrets.proxy_password.as_ref()?.expose_secret().to_owned()),
            Err(problem) => Some(format!("error: {problem}")),
        };
        credentials.refresh([entry.clone()]).await;
        assert_eq!(password(&entry).as_deref(), Some("old word"));
        assert_eq!(password(&other), None);
        std::fs::write(&file, "new word").unwrap();
        assert_eq!(credentials.refresh([entry.clone()]).await, std::slice::from_ref(&entry));
        assert_eq!(credentials.refresh([entry.clone()]).await, []);
        std::fs::write(&file, "w".repeat(256)).unwrap();
        credentials.refresh([entry.clone()]).await;
        let problem = password(&entry).unwrap();
        assert!(problem.contains("proxy") && problem.contains("255 bytes"), "{problem}");
        assert!(!problem.contains("www"), "{problem}");
    }
}
