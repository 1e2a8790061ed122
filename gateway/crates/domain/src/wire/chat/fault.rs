//! Refusals of a chat request's body.

use super::super::json::Malformed;
use crate::refusal::{Refusal, RequestFault};

impl From<Malformed> for Refusal {
    fn from(error: Malformed) -> Self {
        invalid_json(format!("the request body is not valid JSON: {error}"))
    }
}

pub(super) fn invalid_json(message: String) -> Refusal {
    Refusal::invalid(RequestFault::InvalidJson, None, message)
}

/// Refuses a field that is given twice: servers differ in which value they use.
pub(super) fn duplicate(name: &str) -> Refusal {
    invalid_json(format!("the request body is not valid JSON: duplicate field `{name}`"))
}

pub(super) fn missing(name: &str) -> Refusal {
    let message = format!("`{name}` is required");
    Refusal::invalid(RequestFault::MissingRequiredParameter, Some(name), message)
}

pub(super) fn wrong_type(name: &str, wanted: &str) -> Refusal {
    Refusal::invalid(RequestFault::InvalidType, Some(name), format!("`{name}` must be {wanted}"))
}

/// Refuses a field of a container that some servers prefer over the top-level field.
pub(super) fn misplaced(path: &str, name: &str) -> Refusal {
    let message = format!(
        "`{path}` is not supported, since some servers take it for `{name}`; set `{name}` of the request"
    );
    Refusal::invalid(RequestFault::UnsupportedParameter, Some(path), message)
}

/// Refuses a field that multiplies the number of answers.
pub(super) fn several_answers(path: &str) -> Refusal {
    let message = format!("`{path}` is not supported; set `n` for several answers");
    Refusal::invalid(RequestFault::UnsupportedParameter, Some(path), message)
}

/// Refuses a field that names other models than the one that is billed.
pub(super) fn other_models(path: &str) -> Refusal {
    let message = format!(
        "`{path}` is not supported: a request is served by the model that `model` names, and no other"
    );
    Refusal::invalid(RequestFault::UnsupportedParameter, Some(path), message)
}

/// Refuses parameter containers that are nested deeper than any server reads.
pub(super) fn too_deep(path: &str) -> Refusal {
    let message = format!("`{path}` is nested too deeply; move it up");
    Refusal::invalid(RequestFault::UnsupportedParameter, Some(path), message)
}

/// Refuses requests with more removed fields than notes are recorded for.
pub(super) fn too_many(path: &str) -> Refusal {
    let message = format!("`{path}` is one of too many fields that have no effect; remove them");
    Refusal::invalid(RequestFault::UnsupportedParameter, Some(path), message)
}
