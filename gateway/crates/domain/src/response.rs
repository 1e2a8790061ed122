//! Responses that are kept, so that later requests can refer to them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
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

/// What one response adds to a conversation that goes on from it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The response that it continues.
    pub previous: Option<RequestId>,
    /// What was sent, then what was answered.
    pub items: Vec<Box<RawValue>>,
}

/// Items that were asked for by their ids, each once.
#[derive(Debug, Default)]
pub struct FoundItems {
    by_id: HashMap<String, Box<RawValue>>,
    bytes: u64,
}

// === impl StoredResponse ===

impl StoredResponse {
    /// What it counts for in its account's share of the store.
    pub fn bytes(&self) -> u64 {
        (self.input.len() + self.object.len()) as u64
    }

    /// Its items: what was sent, then what was answered.
    pub fn contents(&self) -> Vec<&RawValue> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            output: Vec<&'a RawValue>,
        }
        // both are our own writing
        let mut items: Vec<_> = serde_json::from_str(&self.input).unwrap_or_default();
        let output = serde_json::from_str(&self.object).map(|Object { output }| output);
        items.extend(output.unwrap_or_default());
        items
    }

    /// What is left of it in a conversation: not what the object repeats of the request.
    pub fn turn(&self) -> Turn {
        let items = self.contents().into_iter().map(ToOwned::to_owned).collect();
        Turn { previous: self.previous, items }
    }
}

// === impl Turn ===

impl Turn {
    /// How long its items are.
    pub fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.get().len() as u64).sum()
    }
}

// === impl FoundItems ===

impl FoundItems {
    /// Takes what `response` has of the `wanted` items, in the place of those that were taken before.
    pub fn take(&mut self, response: &StoredResponse, wanted: &HashSet<String>) {
        for item in response.contents() {
            if let Some(id) = item_id(item).filter(|id| wanted.contains(id)) {
                self.insert(id, item.to_owned());
            }
        }
    }

    /// Takes all that others have found.
    pub fn extend(&mut self, others: Self) {
        for (id, item) in others.by_id {
            self.insert(id, item);
        }
    }

    /// Whether this item was found.
    pub fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// How long they are together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The items by their ids.
    pub fn into_map(self) -> HashMap<String, Box<RawValue>> {
        self.by_id
    }

    fn insert(&mut self, id: String, item: Box<RawValue>) {
        self.bytes += item.get().len() as u64;
        if let Some(replaced) = self.by_id.insert(id, item) {
            self.bytes -= replaced.get().len() as u64;
        }
    }
}

/// The id of an item, if it has one.
pub fn item_id(item: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Item {
        id: Option<String>,
    }
    serde_json::from_str::<Item>(item.get()).ok()?.id
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

    /// Ids with escapes were taken for none.
    #[test]
    fn any_string_is_an_id() {
        let id = |json: &str| item_id(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(id(r#"{"type":"x","id":"a"}"#).as_deref(), Some("a"));
        assert_eq!(id(r#"{"id":"a\"b\u00fc\n"}"#).as_deref(), Some("a\"bü\n"));
        for none in [r#"{"id":null}"#, r#"{"id":3}"#, "{}", "3", r#""a""#] {
            assert_eq!(id(none), None, "{none}");
        }
    }

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
