//! What the next process must know of requests in progress, as JSON.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ledger::RetainedFunds;
use crate::pipeline::replay::KeyedRequest;
use domain::id::{AccountId, KeyId, ModelId, RequestId};
use domain::idempotency::IdempotencyDigest;
use domain::money::Nanos;

/// What requests in progress use, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct OpenRequests {
    /// The amounts that may be spent of the balances of accounts, in nanodollars.
    pub(crate) accounts: Vec<(Uuid, i64)>,
    /// The amounts that may be spent of spending caps, by the origins of keys, in nanodollars.
    pub(crate) caps: Vec<(String, i64)>,
    /// The requests.
    pub(crate) requests: Vec<OpenRequest>,
    /// Those with an idempotency key.
    pub(crate) idempotency: Vec<IdempotentRequest>,
}

/// A request in progress.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct OpenRequest {
    pub(crate) id: Uuid,
    pub(crate) account: Uuid,
    pub(crate) key: String,
    pub(crate) model: Option<String>,
}

/// A request in progress with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct IdempotentRequest {
    pub(crate) request: Uuid,
    pub(crate) digest: [u8; 32],
    pub(crate) body: [u8; 32],
}

// === impl OpenRequests ===

impl OpenRequests {
    /// Returns the funds that the requests may spend.
    pub(crate) fn retained_funds(&self) -> RetainedFunds {
        let account = |&(id, amount): &(Uuid, i64)| (AccountId(id), Nanos(amount));
        let cap = |(origin, amount): &(String, i64)| (KeyId::new(origin.as_str()), Nanos(*amount));
        RetainedFunds {
            accounts: self.accounts.iter().map(account).collect(),
            caps: self.caps.iter().map(cap).collect(),
        }
    }

    /// Sets the funds that the requests may spend.
    pub(crate) fn with_funds(mut self, funds: &RetainedFunds) -> Self {
        self.accounts = funds.accounts.iter().map(|(id, amount)| (id.0, amount.0)).collect();
        let cap = |(origin, amount): &(KeyId, Nanos)| (origin.to_string(), amount.0);
        self.caps = funds.caps.iter().map(cap).collect();
        self
    }

    /// Returns the requests with an idempotency key.
    pub(crate) fn keyed_requests(&self) -> Vec<KeyedRequest> {
        let requests = self.idempotency.iter();
        let request = |it: &IdempotentRequest| KeyedRequest {
            digest: IdempotencyDigest(it.digest),
            body: it.body,
            request: RequestId(it.request),
        };
        requests.map(request).collect()
    }
}

// === impl OpenRequest ===

impl OpenRequest {
    /// Returns the account, the key, and the model in the catalogue.
    pub(crate) fn subjects(&self) -> (AccountId, KeyId, Option<ModelId>) {
        let model = self.model.as_deref().map(ModelId::new);
        (AccountId(self.account), KeyId::new(self.key.as_str()), model)
    }
}

impl From<KeyedRequest> for IdempotentRequest {
    fn from(KeyedRequest { digest, body, request }: KeyedRequest) -> Self {
        Self { request: request.0, digest: digest.0, body }
    }
}
