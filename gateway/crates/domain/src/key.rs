//! API keys and their text form, `sk-tg-<public id>-<secret><checksum>`.
//!
//! The public id identifies the key in lists and records. The secret has 192 random bits. The
//! checksum (32 bits of a SHA-256) lets a secret scanner recognise keys without a request to the
//! gateway. All three are lower-case hexadecimal.

use std::fmt;
use std::time::Duration;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use super::id::{AccountId, KeyId, ModelId};
use super::limit::Limits;
use super::money::Nanos;

const PREFIX: &str = "sk-tg-";
const PUBLIC_BYTES: usize = 6;
const SECRET_BYTES: usize = 24;
const CHECK_BYTES: usize = 4;
const TEXT_LENGTH: usize = PREFIX.len() + 2 * (PUBLIC_BYTES + SECRET_BYTES + CHECK_BYTES) + 1;

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The public id.
    pub id: KeyId,
    /// SHA-256 of the full text.
    pub digest: KeyDigest,
    /// The account that pays for the key's requests.
    pub account: AccountId,
    /// The label that the account's owner set.
    pub label: String,
    /// The first key of the rotation chain that this key belongs to; the key's own id if it has not
    /// replaced another one. Limits and spending are counted per origin, so that a rotation resets
    /// neither.
    pub origin: KeyId,
    /// The limits of this key.
    pub limits: Limits,
    /// The total amount that all keys of this origin may spend.
    pub spend_cap: Option<Nanos>,
    /// The models that the key may use; empty means all models of the plan.
    pub models: Vec<ModelId>,
    /// The handling of Responses features that chat upstreams do not support.
    pub translation: Translation,
    /// The handling of client disconnects.
    pub client_gone: ClientGone,
    /// Whether the spans of its requests have the text of prompts and answers.
    pub trace_content: bool,
    /// The account or the person that created it, or the first key of its rotation chain; `None` for a key of
    /// an earlier version.
    pub created_by: Option<AccountId>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time from which the key is no longer accepted.
    pub expires_at: Option<Timestamp>,
    /// The time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// The key that replaced this one by rotation.
    pub successor: Option<KeyId>,
}

/// The handling of Responses features that a chat upstream does not support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Translation {
    /// Minor losses are accepted and reported; hosted tools are refused.
    #[default]
    Lenient,
    /// Any loss is refused.
    Strict,
    /// Like `Lenient`, but hosted tools are removed from the request and reported.
    OmitHostedTools,
}

/// The handling of a client that disconnects before the end of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientGone {
    /// The upstream request is cancelled.
    #[default]
    Cancel,
    /// The answer is read to its end, for at most this duration, to obtain the usage that the
    /// upstream reports.
    Drain(Duration),
}

/// SHA-256 of a key's full text. The store keeps the digest only, and requests are authenticated by
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(pub [u8; 32]);

/// The parts of a new key, derived from random bytes.
pub struct NewKeyText {
    /// The public id.
    pub id: KeyId,
    /// The full text, which is returned once and not stored.
    pub secret: SecretString,
    /// The digest of the full text.
    pub digest: KeyDigest,
}

// === impl Key ===

impl Key {
    /// Whether the key is accepted at `now`: neither revoked nor expired.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

// === impl KeyDigest ===

impl KeyDigest {
    /// Returns the digest of a client's credential. The text need not be well-formed; the cost is
    /// the same in both cases.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigest({}…)", HEXLOWER.encode(&self.0[..4]))
    }
}

// === impl NewKeyText ===

impl NewKeyText {
    /// The number of random bytes that [`Self::new`] needs.
    pub const RANDOM_BYTES: usize = PUBLIC_BYTES + SECRET_BYTES;

    /// Derives a key from `random` bytes.
    pub fn new(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let (public, secret) = random.split_at(PUBLIC_BYTES);
        let id = HEXLOWER.encode(public);
        let mut text = format!("{PREFIX}{id}-{}", HEXLOWER.encode(secret));
        text.push_str(&checksum(&text));
        Self { id: KeyId::new(id), digest: KeyDigest::of(&text), secret: text.into() }
    }
}

/// Whether `text` has the form and a valid checksum of a key. Does not check that the key exists.
pub fn is_key_text(text: &str) -> bool {
    text.len() == TEXT_LENGTH
        && text.starts_with(PREFIX)
        && text.is_char_boundary(TEXT_LENGTH - 2 * CHECK_BYTES)
        && {
            let (body, check) = text.split_at(TEXT_LENGTH - 2 * CHECK_BYTES);
            checksum(body) == check
        }
}

fn checksum(body: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(body.as_bytes())[..CHECK_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn key_text_has_the_documented_form() {
        let key = NewKeyText::new(&[7; 30]);
        let text = key.secret.expose_secret();
        assert_eq!(text.len(), TEXT_LENGTH);
        assert!(text.starts_with(&format!("sk-tg-{}-", key.id)));
        assert_eq!(KeyDigest::of(text), key.digest);
        assert!(is_key_text(text));
    }

    #[test]
    fn a_changed_character_fails_the_checksum() {
        let key = NewKeyText::new(&[7; 30]);
        let text = key.secret.expose_secret().replacen('0', "1", 1);
        assert!(!is_key_text(&text));
        assert!(!is_key_text("sk-tg-"));
        assert!(!is_key_text(&format!("sk-tg-{}", "ü".repeat(40))));
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let key = NewKeyText::new(&[7; 30]);
        assert!(!format!("{:?} {:?}", key.secret, key.digest).contains("0707070707070707"));
    }
}
