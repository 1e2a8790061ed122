//! Idempotency keys, by which retries of a request are recognised.

use bytes::Bytes;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::id::{AccountId, KeyId, RequestId};

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

/// SHA-256 of a request's endpoint and body.
pub type BodyDigest = [u8; 32];

/// The claim of a request to be the only attempt with its idempotency key, among all gateways of a
/// database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The account of the API key.
    pub account: AccountId,
    /// The digest of the idempotency key.
    pub digest: IdempotencyDigest,
    /// The request.
    pub request: RequestId,
    /// The digest of its endpoint and body.
    pub body: BodyDigest,
}

/// A complete answer to a claimed request, as other gateways replay it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// Whether it is a stream.
    pub stream: bool,
    /// Names and values of additional headers.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Bytes,
}

/// What the database has as the answer to an earlier request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerLookup {
    /// The answer.
    Found(StoredAnswer),
    /// None yet: the request was answered less than a second ago.
    Pending,
    /// None: it was too long, it could not be stored, or the claim is no longer in force.
    Gone,
}

/// An earlier claim of the same idempotency key, which is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierClaim {
    /// The request.
    pub request: RequestId,
    /// The digest of its endpoint and body.
    pub body: BodyDigest,
    /// Whether it was answered completely.
    pub is_answered: bool,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The request may be served. Its claim must be released if it is not answered completely.
    Claimed,
    /// Another gateway is serving this request.
    InProgress(RequestId),
    /// This request was answered.
    Answered(RequestId),
    /// The idempotency key belongs to this request, whose endpoint or body is another.
    KeyReused(RequestId),
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

impl Claim {
    /// Returns the outcome of the claim while an earlier one is in force.
    pub fn after(&self, earlier: &EarlierClaim) -> ClaimOutcome {
        if self.body != earlier.body {
            ClaimOutcome::KeyReused(earlier.request)
        } else if earlier.is_answered {
            ClaimOutcome::Answered(earlier.request)
        } else {
            ClaimOutcome::InProgress(earlier.request)
        }
    }
}
