//! Tokens of the admin plane: a prefix for their kind, and 192 random bits in hexadecimal.

use data_encoding::HEXLOWER;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::clock::Entropy;

/// The prefix of session tokens.
pub(super) const SESSION: &str = "tgs-";
/// The prefix of the operator token.
pub(super) const OPERATOR: &str = "tgo-";
/// The prefix of invite codes.
pub(super) const INVITE: &str = "tgi-";
/// The prefix of codes for a new password.
pub(super) const PASSWORD_RESET: &str = "tgr-";

/// The shortest operator token that is accepted, in bytes; operators may choose their own.
const MIN_BYTES: usize = 32;

/// Generates a token.
pub(super) fn make(prefix: &str, entropy: &dyn Entropy) -> SecretString {
    let mut random = [0; 24];
    entropy.fill(&mut random);
    format!("{prefix}{}", HEXLOWER.encode(&random)).into()
}

/// Returns whether the content of a token's file is long enough for a token. Without this check, everyone could use the
/// empty token of an empty file.
pub(super) fn is_whole(token: &SecretString) -> bool {
    token.expose_secret().len() >= MIN_BYTES
}

/// Returns the stored form of a token. An unsalted hash suffices, because 192 random bits cannot be
/// guessed.
pub(super) fn digest(token: &SecretString) -> [u8; 32] {
    Sha256::digest(token.expose_secret().as_bytes()).into()
}
