//! Stored responses (`store: true`), which later requests can reference.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::id::{AccountId, RequestId};

const PREFIX: &str = "resp_";

/// A response of `/v1/responses` with the input that it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The id of the request; [`response_id`] returns the public form.
    pub id: RequestId,
    /// The account that owns the response. No other account can read it.
    pub account: AccountId,
    /// The response that this one continues (`previous_response_id`).
    pub previous: Option<RequestId>,
    /// The time at which the request arrived.
    pub created_at: Timestamp,
    /// The client's input items, as a JSON array; each has an `id`.
    pub input: Arc<str>,
    /// The response object, as JSON.
    pub object: Arc<str>,
    /// The ids of the items in `input` and `object`.
    pub items: Vec<String>,
}

/// The items that one response contributes to a conversation that continues it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The response that this one continues.
    pub previous: Option<RequestId>,
    /// The input items, then the output items.
    pub items: Vec<Box<RawValue>>,
}

/// Referenced items by their ids.
#[derive(Debug, Default)]
pub struct FoundItems {
    by_id: HashMap<String, Box<RawValue>>,
    bytes: u64,
}

// === impl StoredResponse ===

impl StoredResponse {
    /// Returns the size that counts towards the account's storage quota.
    pub fn bytes(&self) -> u64 {
        (self.input.len() + self.object.len()) as u64
    }

    /// Returns the input items, then the output items.
    pub fn contents(&self) -> Vec<&RawValue> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            output: Vec<&'a RawValue>,
        }
        // The gateway wrote both texts, so parsing does not fail.
        let mut items: Vec<_> = serde_json::from_str(&self.input).unwrap_or_default();
        let output = serde_json::from_str(&self.object).map(|Object { output }| output);
        items.extend(output.unwrap_or_default());
        items
    }

    /// Returns the items without the request's other fields, which the object repeats.
    pub fn turn(&self) -> Turn {
        let items = self.contents().into_iter().map(ToOwned::to_owned).collect();
        Turn { previous: self.previous, items }
    }
}

// === impl Turn ===

impl Turn {
    /// Returns the total size of the items.
    pub fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.get().len() as u64).sum()
    }
}

// === impl FoundItems ===

impl FoundItems {
    /// Adds the `wanted` items of `response`. Replaces earlier items with the same id.
    pub fn take(&mut self, response: &StoredResponse, wanted: &HashSet<String>) {
        for item in response.contents() {
            if let Some(id) = item_id(item).filter(|id| wanted.contains(id)) {
                self.insert(id, item.to_owned());
            }
        }
    }

    /// Adds all items of `others`. Replaces earlier items with the same id.
    pub fn extend(&mut self, others: Self) {
        for (id, item) in others.by_id {
            self.insert(id, item);
        }
    }

    /// Whether an item with this id was found.
    pub fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Returns the total size of the items.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the items by their ids.
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

/// Returns the id of an item, if it has one.
pub fn item_id(item: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Item {
        id: Option<String>,
    }
    serde_json::from_str::<Item>(item.get()).ok()?.id
}

/// Returns the public id of a response: `resp_` and 32 hexadecimal digits.
pub fn response_id(id: RequestId) -> String {
    format!("{PREFIX}{}", id.0.simple())
}

/// Parses the output of [`response_id`].
pub fn parse_response_id(text: &str) -> Option<RequestId> {
    let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == 32)?;
    Uuid::try_parse(digits).ok().map(RequestId)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: ids with JSON escapes were ignored.
    #[test]
    fn item_ids_may_contain_escapes() {
        let id = |json: &str| item_id(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(id(r#"{"type":"x","id":"a"}"#).as_deref(), Some("a"));
        assert_eq!(id(r#"{"id":"a\"b\u00fc\n"}"#).as_deref(), Some("a\"bü\n"));
        for none in [r#"{"id":null}"#, r#"{"id":3}"#, "{}", "3", r#""a""#] {
            assert_eq!(id(none), None, "{none}");
        }
    }

    #[test]
    fn response_ids_round_trip() {
        let id = RequestId(Uuid::from_u128(7));
        assert_eq!(response_id(id), "resp_00000000000000000000000000000007");
        assert_eq!(parse_response_id(&response_id(id)), Some(id));
        for other in ["resp_7", "00000000000000000000000000000007", "resp_", "msg_x"] {
            assert_eq!(parse_response_id(other), None, "{other}");
        }
    }
}
