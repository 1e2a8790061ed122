//! API keys, and the text that a client holds: `sk-tg-<public id>-<secret><checksum>`.
//!
//! The public id names the key in lists and records. The secret has 192 random bits. The checksum
//! (32 bits of a SHA-256) lets a scanner tell a key from a look-alike without asking us. All three are
//! lower-case hexadecimal.

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

/// One key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its public id.
    pub id: KeyId,
    /// SHA-256 of its full text.
    pub digest: KeyDigest,
    /// Whose it is.
    pub account: AccountId,
    /// What its owner calls it.
    pub label: String,
    /// The first key of those that took each other's place, up to it; its own id if it took nobody's.
    /// Limits and spending are counted by it, so that a rotation gives neither anew.
    pub origin: KeyId,
    /// Its own limits.
    pub limits: Limits,
    /// The most that it may spend in all, with the keys that it took the place of.
    pub spend_cap: Option<Nanos>,
    /// The models that it may use; empty means all that the plan allows.
    pub models: Vec<ModelId>,
    /// What happens to what `/v1/responses` cannot translate.
    pub translation: Translation,
    /// What becomes of a request whose client goes away.
    pub client_gone: ClientGone,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The key that took its place, if it was rotated.
    pub successor: Option<KeyId>,
}

/// What happens to what a Responses request asks for and a chat upstream cannot do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Translation {
    /// Small losses are made and reported; hosted tools are refused.
    #[default]
    Lenient,
    /// Every loss is refused.
    Strict,
    /// As lenient, but hosted tools are left out, and reported.
    OmitHostedTools,
}

/// What becomes of a request whose client goes away before its answer has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientGone {
    /// Its upstream is stopped.
    #[default]
    Cancel,
    /// Its answer is read all the same, for up to this long, so that its usage is the upstream's word.
    Drain(Duration),
}

/// SHA-256 of a key's full text: what is stored, and what requests are looked up by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(pub [u8; 32]);

/// A new key's parts, made of random bytes.
pub struct NewKeyText {
    /// The public id.
    pub id: KeyId,
    /// The full text; it leaves the system once.
    pub secret: SecretString,
    /// Its digest.
    pub digest: KeyDigest,
}

// === impl Key ===

impl Key {
    /// Whether it can be used at `now`.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

// === impl KeyDigest ===

impl KeyDigest {
    /// Digests what a client sent, well-formed or not: the work is the same for both.
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
    /// How many random bytes a key takes.
    pub const RANDOM_BYTES: usize = PUBLIC_BYTES + SECRET_BYTES;

    /// Makes a key of `random` bytes.
    pub fn new(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let (public, secret) = random.split_at(PUBLIC_BYTES);
        let id = HEXLOWER.encode(public);
        let mut text = format!("{PREFIX}{id}-{}", HEXLOWER.encode(secret));
        text.push_str(&checksum(&text));
        Self { id: KeyId::new(id), digest: KeyDigest::of(&text), secret: text.into() }
    }
}

/// Whether `text` has the form and the checksum of a key. Says nothing about whether we made it.
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
    fn the_text_has_the_documented_form() {
        let key = NewKeyText::new(&[7; 30]);
        let text = key.secret.expose_secret();
        assert_eq!(text.len(), TEXT_LENGTH);
        assert!(text.starts_with(&format!("sk-tg-{}-", key.id)));
        assert_eq!(KeyDigest::of(text), key.digest);
        assert!(is_key_text(text));
    }

    #[test]
    fn a_typo_breaks_the_checksum() {
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
