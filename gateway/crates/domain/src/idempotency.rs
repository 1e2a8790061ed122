//! Idempotency keys: what a client names a request by, so that its retries are known as such.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::id::{KeyId, RequestId};

/// An `Idempotency-Key` together with the API key that it came with: their SHA-256, which is all
/// that is kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyDigest(pub [u8; 32]);

/// A request that was answered in whole, and must not be served again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// What it is known by.
    pub digest: IdempotencyDigest,
    /// Its id.
    pub id: RequestId,
    /// When it ended.
    pub at: Timestamp,
}

/// A call of the admin plane that its caller may make again without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminCall {
    /// What kind of call it is. A key counts for one kind.
    pub method: &'static str,
    /// What its caller names it by: 1 to 255 bytes.
    pub key: String,
    /// Tells calls apart that have the same key. Made with a secret of the gateway, because there may be
    /// a password in what was asked for.
    pub digest: [u8; 32],
}

/// A call of the admin plane that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneCall {
    /// Its digest.
    pub digest: [u8; 32],
    /// What it changed, as the audit log names it.
    pub object: String,
}

impl IdempotencyDigest {
    /// Digests what a client sent with this key.
    pub fn of(key: &KeyId, text: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(key.as_str()).chain_update([0]).chain_update(text);
        Self(digest.finalize().into())
    }
}
