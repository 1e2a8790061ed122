//! Idempotency keys, by which retries of a request are recognised.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::id::{KeyId, RequestId};

/// SHA-256 of an `Idempotency-Key` and the id of the API key that sent it. Only the digest is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyDigest(pub [u8; 32]);

/// A request that was answered completely and must not be served again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The digest of the idempotency key.
    pub digest: IdempotencyDigest,
    /// The request's id.
    pub id: RequestId,
    /// The time at which the request ended.
    pub at: Timestamp,
}

/// An admin call with an idempotency key, which the caller may safely repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminCall {
    /// The method. Keys are scoped to a method.
    pub method: &'static str,
    /// The caller's idempotency key: 1 to 255 bytes.
    pub key: String,
    /// The keyed digest of the request, which distinguishes different calls with the same key.
    /// Keyed with a secret of the gateway, because the request may contain a password.
    pub digest: [u8; 32],
}

/// An admin call that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedCall {
    /// The digest of the request.
    pub digest: [u8; 32],
    /// The changed object, as named in the audit log.
    pub object: String,
}

impl IdempotencyDigest {
    /// Returns the digest of an `Idempotency-Key` header that came with the API key `key`.
    pub fn of(key: &KeyId, text: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(key.as_str()).chain_update([0]).chain_update(text);
        Self(digest.finalize().into())
    }
}
