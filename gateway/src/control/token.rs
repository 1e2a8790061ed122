//! The texts that open the admin plane: a prefix that says what it is, and 192 random bits.

use data_encoding::HEXLOWER;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::clock::Entropy;

/// Begins a session's token.
pub(super) const SESSION: &str = "tgs-";
/// Begins the operator token.
pub(super) const OPERATOR: &str = "tgo-";
/// Begins an invite code.
pub(super) const INVITE: &str = "tgi-";

/// Makes a token.
pub(super) fn make(prefix: &str, entropy: &dyn Entropy) -> SecretString {
    let mut random = [0; 24];
    entropy.fill(&mut random);
    format!("{prefix}{}", HEXLOWER.encode(&random)).into()
}

/// Returns what is stored of a token. A plain hash will do: nobody guesses 192 random bits.
pub(super) fn digest(token: &SecretString) -> [u8; 32] {
    Sha256::digest(token.expose_secret().as_bytes()).into()
}
