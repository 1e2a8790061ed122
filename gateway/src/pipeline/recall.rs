//! What a Responses request continues: the items of earlier responses, and items that it references.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::AppState;
use super::authenticate::Principal;
use super::request_copies::RequestCopies;
use crate::response_store::{Limit, ResponseStoreError};
use domain::model::Model;
use domain::refusal::{Refusal, RequestFault};
use domain::response::{parse_response_id, response_id};
use translate::request::Request;

/// What a request continues.
#[derive(Default)]
pub(super) struct Recalled {
    pub(super) items: Vec<Box<RawValue>>,
    pub(super) references: HashMap<String, Box<RawValue>>,
    /// The total length in bytes; items referenced several times count each time.
    pub(super) bytes: u64,
}

/// Loads what the request continues and references. `copies` counts the first part while the second is loaded; the
/// caller counts both. `model` is the model, and `body_bytes` the length of the request's body.
///
/// # Errors
/// A response or an item is not found, there is too much, or there is no memory for it.
pub(super) async fn recall(
    app: &AppState,
    principal: &Principal,
    request: &Request<'_>,
    copies: &mut RequestCopies,
    model: &Model,
    body_bytes: usize,
) -> Result<Option<Recalled>, Refusal> {
    let Some(responses) = &app.response_store else { return Ok(None) };
    let account = principal.account.id;
    let mut recalled = Recalled::default();
    if let Some(text) = request.previous_response_id.as_deref() {
        let id = parse_response_id(text).ok_or_else(|| not_found(text))?;
        recalled.items = responses
            .chain(account, id, app.max_chain_bytes)
            .await
            .map_err(|error| unrecalled(error, "previous_response_id"))?;
    }
    let references: Vec<_> = request.references().map(str::to_owned).collect();
    if !references.is_empty() {
        let chain_bytes: usize = recalled.items.iter().map(|item| item.get().len()).sum();
        if !copies.try_take(body_bytes + chain_bytes, model) {
            return Err(Refusal::BodyMemoryExhausted);
        }
        recalled.references = responses
            .items(account, references, app.max_chain_bytes)
            .await
            .map_err(|error| unrecalled(error, "input"))?;
    }
    let referred = request.references().filter_map(|id| recalled.references.get(id));
    recalled.bytes =
        recalled.items.iter().chain(referred).map(|item| item.get().len() as u64).sum();
    if recalled.bytes > app.max_chain_bytes {
        let limit = Limit::Bytes(app.max_chain_bytes);
        return Err(unrecalled(ResponseStoreError::TooLong(limit), "input"));
    }
    Ok(Some(recalled))
}

fn not_found(id: &str) -> Refusal {
    Refusal::invalid(
        RequestFault::PreviousResponseNotFound,
        Some("previous_response_id"),
        format!(
            "response `{}` was not found; send the whole conversation as `input`",
            id.escape_default()
        ),
    )
}

fn unrecalled(error: ResponseStoreError, param: &str) -> Refusal {
    match error {
        ResponseStoreError::NotFound(id) => not_found(&response_id(id)),
        ResponseStoreError::TooLong(_) => {
            Refusal::invalid(RequestFault::InvalidValue, Some(param), error.to_string())
        }
        ResponseStoreError::Store(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "cannot read stored responses");
            Refusal::StateUnavailable
        }
    }
}

// === impl Recalled ===

impl Recalled {
    /// Returns the items that the request continues and references, each as JSON.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let items = self.items.iter().chain(self.references.values());
        items.map(|item| item.get())
    }
}
