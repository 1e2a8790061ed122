//! The upstreams' credentials in memory. They are resolved at start and when an upstream changes,
//! never per request.
//!
//! A failure is kept as a message, which must not contain the credential.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncReadExt;
use zeroize::Zeroizing;

use super::seal::Sealer;
use domain::id::UpstreamName;
use domain::upstream::{CredentialSource, Upstream};

/// The maximum number of bytes read from a credential file.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// A credential, `None` if the upstream needs none, or the reason why it could not be resolved.
pub type ResolvedCredential = Result<Option<SecretString>, String>;

/// The credentials of all upstreams. Reads take no lock.
pub struct Credentials {
    sealer: Arc<Sealer>,
    resolved: ArcSwap<HashMap<UpstreamName, Arc<ResolvedCredential>>>,
}

impl Credentials {
    /// Creates an empty set. [`Credentials::refresh`] must be called before use.
    pub fn new(sealer: Arc<Sealer>) -> Self {
        Self { sealer, resolved: ArcSwap::default() }
    }

    /// Returns the credential of an upstream; `None` if the upstream is unknown.
    pub fn find(&self, upstream: &UpstreamName) -> Option<Arc<ResolvedCredential>> {
        self.resolved.load().get(upstream).cloned()
    }

    /// Returns why an upstream's credential cannot be used; empty if it can.
    pub fn problem(&self, upstream: &UpstreamName) -> String {
        match self.find(upstream).as_deref() {
            Some(Err(problem)) => problem.clone(),
            Some(Ok(_)) | None => String::new(),
        }
    }

    /// Resolves the credentials of `upstreams` and drops all others.
    pub async fn refresh(&self, upstreams: impl IntoIterator<Item = Arc<Upstream>> + Send) {
        let upstreams: Vec<_> = upstreams.into_iter().collect();
        let mut resolved = HashMap::with_capacity(upstreams.len());
        for upstream in upstreams {
            let credential = self.resolve(&upstream.credential).await;
            if let Err(problem) = &credential {
                tracing::warn!(upstream = %upstream.name, problem, "cannot resolve a credential");
            }
            resolved.insert(upstream.name.clone(), Arc::new(credential));
        }
        self.resolved.store(Arc::new(resolved));
    }

    /// Returns the keyed digest of bytes that may contain a secret.
    pub(crate) fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        self.sealer.digest(bytes)
    }

    /// Encrypts a credential for the store.
    pub(crate) fn seal(&self, secret: &SecretString) -> CredentialSource {
        CredentialSource::Sealed(self.sealer.seal(secret))
    }

    async fn resolve(&self, source: &CredentialSource) -> ResolvedCredential {
        let (secret, from) = match source {
            CredentialSource::None => return Ok(None),
            CredentialSource::Env(name) => (read_env(name)?, format!("variable `{name}`")),
            CredentialSource::File(path) => (read_file(path).await?, format!("file `{path}`")),
            CredentialSource::Sealed(sealed) => {
                let secret = self.sealer.open_sealed(sealed).map_err(|error| error.to_string())?;
                (secret, "stored credential".to_owned())
            }
        };
        match bearer_token_problem(&secret) {
            None => Ok(Some(secret)),
            Some(problem) => Err(format!("the {from} {problem}")),
        }
    }
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
    use domain::upstream::{Deadlines, Profile};
    use jiff::Timestamp;

    fn upstream(name: &str, credential: CredentialSource) -> Arc<Upstream> {
        Arc::new(Upstream {
            name: UpstreamName::new(name),
            url: "http://localhost".into(),
            credential,
            profile: Profile::Generic,
            deadlines: Deadlines::default(),
            ca_certificates: None,
            created_at: Timestamp::UNIX_EPOCH,
        })
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
            (CredentialSource::None, Ok(None)),
            // Set by cargo for every test.
            (CredentialSource::Env("CARGO_PKG_NAME".into()), Ok(Some("gateway"))),
            (CredentialSource::Env("TOLLGATE_NO_SUCH".into()), Err("`TOLLGATE_NO_SUCH` is not")),
            (CredentialSource::File(file.clone()), Ok(Some("from-file"))),
            (CredentialSource::File(format!("{file}2")), Err("cannot be read")),
            (credentials.seal(&"sealed".into()), Ok(Some("sealed"))),
            (credentials.seal(&"two words".into()), Err("has spaces")),
            (CredentialSource::Sealed(broken), Err("set it again")),
        ];
        let name = |index: usize| UpstreamName::new(format!("u{index}"));
        let upstreams: Vec<_> = cases
            .iter()
            .enumerate()
            .map(|(index, (source, _))| upstream(name(index).as_str(), source.clone()))
            .collect();
        credentials.refresh(upstreams).await;
        for (index, (source, expected)) in cases.iter().enumerate() {
            let resolved = credentials.find(&name(index)).unwrap();
            match (&*resolved, expected) {
                (Ok(secret), Ok(expected)) => {
                    assert_eq!(
                        secret.as_ref().map(ExposeSecret::expose_secret),
                        *expected,
                        "{source:?}"
                    );
                    assert_eq!(credentials.problem(&name(index)), "");
                }
                (Err(problem), Err(part)) => {
                    assert!(problem.contains(part), "{problem}");
                    assert!(!problem.contains("hidden") && !problem.contains("two words"));
                }
                _ => panic!("{source:?}"),
            }
        }
        assert!(credentials.find(&UpstreamName::new("u99")).is_none());
        credentials.refresh([]).await;
        assert!(credentials.find(&name(0)).is_none());
    }
}
