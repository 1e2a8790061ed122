//! Keeps the credentials of an upstream out of what it sends: errors are redacted, answers refused.

use secrecy::{ExposeSecret, SecretString};

use super::client::UpstreamClient;
use super::credential::Credential;
use super::credential_search::contains_any;
use super::error::UpstreamError;
use domain::wire::error::redact_text;

impl UpstreamClient {
    /// Checks that a plain answer does not contain a credential of the upstream.
    ///
    /// # Errors
    /// [`UpstreamError::Invalid`] if it does.
    pub fn check_no_credential(&self, answer: &[u8]) -> Result<(), UpstreamError> {
        let credentials = self.credentials();
        let secrets: Vec<_> = credentials.filter_map(Credential::searched_secret).collect();
        if contains_any(answer, &secrets) {
            return Err(UpstreamError::Invalid(
                "its answer contains a credential of the upstream".to_owned(),
            ));
        }
        Ok(())
    }

    /// Returns the secrets of the upstream's credentials.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.credentials().filter_map(|credential| credential.secret.as_ref())
    }

    /// Returns whether a text contains a credential of the upstream.
    pub fn has_credential_in(&self, text: &str) -> bool {
        self.exposed_secrets().any(|secret| !secret.is_empty() && text.contains(secret))
    }

    /// Removes the upstream's credentials from a text.
    pub fn redact_text(&self, text: &mut String) {
        self.exposed_secrets().for_each(|secret| redact_text(text, secret));
    }

    fn exposed_secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets().map(ExposeSecret::expose_secret)
    }

    /// Removes the upstream's credentials from an error's text, which may be logged or passed on to a client.
    pub fn redact(&self, mut error: UpstreamError) -> UpstreamError {
        for secret in self.exposed_secrets() {
            match &mut error {
                UpstreamError::Refused { body, .. } | UpstreamError::Reported(body) => {
                    body.redact(secret);
                }
                UpstreamError::Invalid(text)
                | UpstreamError::ConstraintViolation(text)
                | UpstreamError::Redirected { to: Some(text), .. } => redact_text(text, secret),
                _ => {}
            }
        }
        error
    }
}
