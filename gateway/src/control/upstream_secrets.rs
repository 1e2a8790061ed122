//! Validation of the secrets of upstreams: sources of credentials, logins for proxies and client certificates. New secrets
//! are encrypted here.

use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use trust::Identity;

use super::Control;
use super::upstream_settings::MAX_CERTIFICATES_BYTES;
use super::upstream_settings::check_proxy;
use super::upstreams::{NewClientCertificate, NewCredential, NewProxyLogin};
use crate::secrets::{bearer_token_problem, proxy_password_problem};
use crate::upstream::certificate;
use domain::ValidationError;
use domain::upstream::{
    ClientCertificate, CredentialSource, MAX_CREDENTIALS, Proxy, ProxyChoice, ProxyLogin, Upstream,
};

const MAX_SOURCE_BYTES: usize = 4_096;
/// RFC 1929 has one byte for the length.
const MAX_PROXY_USER_BYTES: usize = 255;

/// The use of a secret: the fields of its sources, which errors name, and what it must be like.
struct SecretUse {
    env: &'static str,
    file: &'static str,
    secret: &'static str,
    current: &'static str,
    plural: &'static str,
    /// Returns why a secret cannot be used; the text completes a sentence "it …".
    problem: fn(&SecretString) -> Option<&'static str>,
}

const CREDENTIAL: SecretUse = SecretUse {
    env: "credential.env",
    file: "credential.file",
    secret: "credential.secret",
    current: "credential.current",
    plural: "credentials",
    problem: bearer_token_problem,
};

const PROXY_PASSWORD: SecretUse = SecretUse {
    env: "proxy_login.password.env",
    file: "proxy_login.password.file",
    secret: "proxy_login.password.secret",
    current: "proxy_login.password.current",
    plural: "passwords for a proxy",
    problem: proxy_password_problem,
};

impl Control {
    pub(super) fn check_credentials(
        &self,
        credentials: Vec<NewCredential>,
        current: &[CredentialSource],
    ) -> Result<Vec<CredentialSource>, ValidationError> {
        if credentials.len() > MAX_CREDENTIALS {
            let message = format!("`credentials` must be at most {MAX_CREDENTIALS}");
            return Err(ValidationError::new("credentials", message));
        }
        credentials.into_iter().map(|it| self.check_source(&CREDENTIAL, it, current)).collect()
    }

    /// Validates a source; `current` are those of the entry with the same use.
    fn check_source(
        &self,
        use_of: &SecretUse,
        credential: NewCredential,
        current: &[CredentialSource],
    ) -> Result<CredentialSource, ValidationError> {
        let check = |field: &'static str, text: &str| {
            let fits = (1..=MAX_SOURCE_BYTES).contains(&text.len());
            if fits && !text.chars().any(char::is_control) {
                return Ok(());
            }
            let message = format!(
                "`{field}` must have 1 to {MAX_SOURCE_BYTES} bytes and no control characters"
            );
            Err(ValidationError::new(field, message))
        };
        match credential {
            NewCredential::Current(number) => {
                let position = usize::try_from(number).ok().and_then(|it| it.checked_sub(1));
                position.and_then(|it| current.get(it)).cloned().ok_or_else(|| {
                    let (field, count, plural) = (use_of.current, current.len(), use_of.plural);
                    let message =
                        format!("`{field}` is {number}, but the upstream has {count} {plural}");
                    ValidationError::new(field, message)
                })
            }
            NewCredential::Env(name) => {
                let field = use_of.env;
                check(field, &name)?;
                if name.contains('=') {
                    let message = format!("`{field}` must be a variable's name, not its value");
                    return Err(ValidationError::new(field, message));
                }
                Ok(CredentialSource::Env(name))
            }
            NewCredential::File(path) => {
                let field = use_of.file;
                check(field, &path)?;
                if !Path::new(&path).is_absolute() {
                    let message =
                        format!("`{field}` must be an absolute path on the gateway's host");
                    return Err(ValidationError::new(field, message));
                }
                Ok(CredentialSource::File(path))
            }
            NewCredential::Secret(secret) => match (use_of.problem)(&secret) {
                None => Ok(self.credentials.seal(&secret)),
                Some(problem) => {
                    let field = use_of.secret;
                    Err(ValidationError::new(field, format!("`{field}` {problem}")))
                }
            },
        }
    }

    /// Returns the proxy after a change; what is `None` does not change. The login stays with another URL, and goes
    /// with the proxy.
    pub(super) fn changed_proxy(
        &self,
        current: &ProxyChoice,
        url: Option<String>,
        login: Option<NewProxyLogin>,
    ) -> Result<ProxyChoice, ValidationError> {
        let login = match login {
            Some(new) => self.check_proxy_login(new, current.login())?,
            None if matches!(url.as_deref(), Some("" | ProxyChoice::DIRECT)) => None,
            None => current.login().cloned(),
        };
        let choice = url.map_or_else(|| Ok(current.clone()), |url| check_proxy(&url))?;
        let invalid = |message| Err(ValidationError::new("proxy_login", message));
        match (choice, login) {
            (ProxyChoice::Configured(proxy), login) => {
                let has_colon = login.as_ref().is_some_and(|login| login.user.contains(':'));
                // RFC 7617: the first colon ends the user name.
                if has_colon && proxy.url.starts_with("http:") {
                    return invalid("`proxy_login.user` must have no colon for an HTTP proxy");
                }
                Ok(ProxyChoice::Configured(Proxy { login, ..proxy }))
            }
            (choice, None) => Ok(choice),
            (_, Some(_)) => invalid("`proxy_login` is for an upstream with a URL in `proxy`"),
        }
    }

    /// Validates a login for a proxy; `None` if its user is empty.
    fn check_proxy_login(
        &self,
        NewProxyLogin { user, password }: NewProxyLogin,
        current: Option<&ProxyLogin>,
    ) -> Result<Option<ProxyLogin>, ValidationError> {
        let invalid = |field, message| Err(ValidationError::new(field, message));
        if user.is_empty() {
            return Ok(None);
        }
        if user.len() > MAX_PROXY_USER_BYTES || user.chars().any(char::is_control) {
            let message =
                "`proxy_login.user` must have at most 255 bytes and no control characters";
            return invalid("proxy_login.user", message);
        }
        let current = current.map(|login| &login.password);
        let password = match (password, current) {
            (Some(new), _) => {
                let current = current.map(std::slice::from_ref).unwrap_or_default();
                self.check_source(&PROXY_PASSWORD, new, current)?
            }
            (None, Some(current)) => current.clone(),
            (None, None) => {
                let message = "`proxy_login.password` is missing, and none is stored";
                return invalid("proxy_login.password", message);
            }
        };
        Ok(Some(ProxyLogin { user, password }))
    }

    /// Validates a certificate of the gateway for `upstream`; `None` if its chain is empty.
    pub(super) fn check_client_certificate(
        &self,
        NewClientCertificate { chain, key }: NewClientCertificate,
        upstream: &Upstream,
    ) -> Result<Option<ClientCertificate>, ValidationError> {
        let invalid = |why: &dyn std::fmt::Display| {
            let message = format!("`client_certificate` cannot be used: {why}");
            ValidationError::new("client_certificate", message)
        };
        if chain.is_empty() {
            return Ok(None);
        }
        if chain.len() > MAX_CERTIFICATES_BYTES {
            return Err(invalid(&format_args!("it has more than {MAX_CERTIFICATES_BYTES} bytes")));
        }
        let stored = upstream.client_certificate.as_ref();
        let (key, sealed_key) = match (key, stored) {
            (Some(key), _) => {
                let sealed = self.credentials.seal_bytes(&key);
                (key, sealed)
            }
            (None, Some(stored)) => {
                let key = self.credentials.open_sealed(&stored.sealed_key);
                (key.map_err(|problem| invalid(&problem))?, stored.sealed_key.clone())
            }
            (None, None) => {
                let why = "its key is not stored; give both files with `ctl upstream update NAME \
                    --client-cert FILE --client-key FILE`";
                return Err(invalid(&why));
            }
        };
        Identity::new(chain.as_bytes(), key.expose_secret().as_bytes())
            .map_err(|error| invalid(&error))?;
        certificate::subject_and_end(&chain).map_err(|problem| invalid(&problem))?;
        Ok(Some(ClientCertificate { chain, sealed_key }))
    }
}
