//! Signatures of messages by the convention of Standard Webhooks: HMAC-SHA256 of id, time and body.

use std::fmt;

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

/// The beginning of a secret, which says what it is.
const PREFIX: &str = "whsec_";
/// The accepted lengths of a secret, in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// The secret that the gateway shares with the receivers of its webhooks.
#[derive(Clone)]
pub struct SigningSecret(SecretSlice<u8>);

/// The text is not a secret. The error contains nothing of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it must be `whsec_` and 24 to 64 bytes in base64; make one with `echo whsec_$(openssl rand -base64 32)`"
)]
pub struct InvalidSecretError;

// === impl SigningSecret ===

impl SigningSecret {
    /// Parses the text of a secret.
    ///
    /// # Errors
    /// It has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidSecretError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(InvalidSecretError)?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| InvalidSecretError)?;
        let bytes = SecretSlice::from(bytes);
        let has_length = LENGTHS.contains(&bytes.expose_secret().len());
        has_length.then_some(Self(bytes)).ok_or(InvalidSecretError)
    }

    /// Returns the value of `webhook-signature` for a message that is sent at `seconds`, a Unix time.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret())
            .expect("HMAC accepts every length");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference implementations.
    #[test]
    fn a_signature_is_that_of_the_specification() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
        let signature =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(format!("{secret:?}"), "SigningSecret");
    }

    #[test]
    fn other_texts_are_no_secrets() {
        let long = format!("whsec_{}", BASE64.encode(&[0; 65]));
        for text in
            ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_abc!", "whsec_MfKQ", &long]
        {
            assert_eq!(SigningSecret::parse(text).unwrap_err(), InvalidSecretError, "{text}");
        }
    }
}
