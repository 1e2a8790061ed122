//! Responses that are kept, so that later requests can refer to them.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::id::{AccountId, RequestId};

const PREFIX: &str = "resp_";

/// One answer of `/v1/responses` with what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The request that it answers; [`response_id`] is its public form.
    pub id: RequestId,
    /// Whose it is; nobody else ever sees it.
    pub account: AccountId,
    /// The response that it continues.
    pub previous: Option<RequestId>,
    /// When its request came in.
    pub created_at: Timestamp,
    /// The items that the client sent, as a JSON array; each has an `id`.
    pub input: Arc<str>,
    /// The response object, as JSON.
    pub object: Arc<str>,
    /// The ids of the items in both.
    pub items: Vec<String>,
}

impl StoredResponse {
    /// What it counts for in its account's share of the store.
    pub fn bytes(&self) -> u64 {
        (self.input.len() + self.object.len()) as u64
    }
}

/// The id that a client knows a response by: `resp_` and 32 hexadecimal digits.
pub fn response_id(id: RequestId) -> String {
    format!("{PREFIX}{}", id.0.simple())
}

/// Reads what [`response_id`] wrote.
pub fn parse_response_id(text: &str) -> Option<RequestId> {
    let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == 32)?;
    Uuid::try_parse(digits).ok().map(RequestId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back() {
        let id = RequestId(Uuid::from_u128(7));
        assert_eq!(response_id(id), "resp_00000000000000000000000000000007");
        assert_eq!(parse_response_id(&response_id(id)), Some(id));
        for other in ["resp_7", "00000000000000000000000000000007", "resp_", "msg_x"] {
            assert_eq!(parse_response_id(other), None, "{other}");
        }
    }
}
