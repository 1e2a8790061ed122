//! Maps the method and path of a request to what it asks for.

use std::borrow::Cow;

use http::header::{HeaderName, UPGRADE, USER_AGENT};
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

use crate::pipeline::responses::ClientKind;
use crate::pipeline::serve::ModelEndpoint;
use domain::endpoint::Endpoint;

/// What a request asks for.
pub(super) enum Target<'a> {
    /// An answer of a model.
    Model(ModelEndpoint),
    /// Something that needs no upstream.
    Local(LocalTarget<'a>),
}

/// What is answered without an upstream.
pub(super) enum LocalTarget<'a> {
    /// A WebSocket upgrade.
    WebSocket,
    /// A stored response, by its id.
    Stored(&'a str),
    /// The deletion of a stored response.
    Delete(&'a str),
    /// The input items of a stored response.
    InputItems(&'a str),
    /// The list of models.
    Models,
    /// One model, by its id or alias.
    Model(Cow<'a, str>),
    /// A known path with another method than these.
    WrongMethod(&'static str),
    /// An unknown path.
    Unknown,
}

/// Returns what a request asks for.
pub(super) fn target<'a>(method: &Method, path: &'a str, headers: &HeaderMap) -> Target<'a> {
    match path {
        "/v1/chat/completions" if method == Method::POST => Target::Model(ModelEndpoint::Chat),
        "/v1/responses" if method == Method::POST => {
            Target::Model(ModelEndpoint::Responses(client_kind(headers)))
        }
        "/v1/responses" if headers.contains_key(UPGRADE) => Target::Local(LocalTarget::WebSocket),
        "/v1/chat/completions" | "/v1/responses" => Target::Local(LocalTarget::WrongMethod("POST")),
        "/v1/models" if method == Method::GET => Target::Local(LocalTarget::Models),
        "/v1/models" => Target::Local(LocalTarget::WrongMethod("GET")),
        _ if let Some(rest) = path.strip_prefix("/v1/responses/") => {
            Target::Local(stored_target(method, rest))
        }
        _ => match path.strip_prefix("/v1/models/") {
            // Clients may write the slash of `vendor/model` literally or as %2F.
            Some(name) if !name.is_empty() && method == Method::GET => {
                Target::Local(LocalTarget::Model(percent_decode_str(name).decode_utf8_lossy()))
            }
            Some(name) if !name.is_empty() => Target::Local(LocalTarget::WrongMethod("GET")),
            _ => Target::Local(LocalTarget::Unknown),
        },
    }
}

/// Returns the endpoint of a stored response.
fn stored_target<'a>(method: &Method, rest: &'a str) -> LocalTarget<'a> {
    match rest.split_once('/') {
        None if rest.is_empty() => LocalTarget::Unknown,
        None if method == Method::GET => LocalTarget::Stored(rest),
        None if method == Method::DELETE => LocalTarget::Delete(rest),
        None => LocalTarget::WrongMethod("GET, DELETE"),
        Some((id, "input_items")) if method == Method::GET => LocalTarget::InputItems(id),
        Some((_, "input_items")) => LocalTarget::WrongMethod("GET"),
        Some(_) => LocalTarget::Unknown,
    }
}

/// Codex identifies itself in one of two headers.
fn client_kind(headers: &HeaderMap) -> ClientKind {
    let is_codex = |name: HeaderName| {
        let value = headers.get(name).map(http::HeaderValue::as_bytes).unwrap_or_default();
        value.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"codex"))
    };
    if is_codex(HeaderName::from_static("originator")) || is_codex(USER_AGENT) {
        ClientKind::Codex
    } else {
        ClientKind::Other
    }
}

impl Target<'_> {
    /// Returns the endpoint for the record.
    pub(super) const fn endpoint(&self) -> Endpoint {
        match self {
            Self::Model(model) => model.endpoint(),
            Self::Local(local) => local.endpoint(),
        }
    }
}

impl LocalTarget<'_> {
    const fn endpoint(&self) -> Endpoint {
        match self {
            Self::WebSocket => Endpoint::Responses,
            Self::Stored(_) | Self::Delete(_) | Self::InputItems(_) => Endpoint::Response,
            Self::Models => Endpoint::Models,
            Self::Model(_) => Endpoint::Model,
            Self::WrongMethod(_) | Self::Unknown => Endpoint::Other,
        }
    }
}
