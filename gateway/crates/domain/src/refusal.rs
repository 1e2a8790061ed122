//! Reasons for refusing a request, with messages that the caller can act on.
//!
//! Independent of HTTP: `http/error_reply.rs` maps refusals to status codes.

use std::time::Duration;

use jiff::Timestamp;

use super::id::RequestId;
use super::limit::{LimitKind, LimitScope};
use super::money::Nanos;

/// The reason for refusing a request. `Display` is the message to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The credential is missing, malformed, unknown, revoked or expired.
    #[error("{0}")]
    InvalidApiKey(KeyFault),
    /// The account was suspended.
    #[error("this account is suspended; ask the operator of this gateway")]
    AccountSuspended,
    /// The plan or the key does not include the model.
    #[error("model `{model}` is not available to this {}", if *.by_key { "key" } else { "account's plan" })]
    ModelNotAllowed {
        /// The model's name in the request.
        model: String,
        /// Whether the key, rather than the plan, excludes the model.
        by_key: bool,
    },
    /// The model is not in the catalogue.
    #[error("{}", unknown_model(.model, .suggestion.as_deref()))]
    ModelNotFound {
        /// The model's name in the request.
        model: String,
        /// The id of the model with this display name, if any.
        suggestion: Option<String>,
    },
    /// The path is unknown.
    #[error(
        "unknown path `{path}`; this gateway serves /v1/models, /v1/chat/completions and /v1/responses"
    )]
    UnknownUrl {
        /// The path.
        path: String,
    },
    /// The path does not support the method.
    #[error("method `{method}` is not allowed here; use {allowed}")]
    MethodNotAllowed {
        /// The method.
        method: String,
        /// The allowed methods.
        allowed: &'static str,
    },
    /// The path accepts WebSocket connections in OpenAI's API, but not in the gateway.
    #[error("WebSockets are not served here; POST the request instead, with `stream` for a stream")]
    WebSocket,
    /// The account has no stored response with this id.
    #[error("response `{id}` was not found: it was never stored, was deleted, or is too old")]
    ResponseNotFound {
        /// The requested id.
        id: String,
    },
    /// The body exceeds the size limit.
    #[error("the request body is larger than {limit_bytes} bytes, the limit of this gateway")]
    RequestTooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The body did not arrive in time.
    #[error("the request body did not arrive in time; send it again")]
    BodyTooSlow,
    /// The body is incomplete, or its framing does not match its headers.
    #[error("the request body broke off or is not framed correctly; send it again")]
    BodyBrokenOff,
    /// The memory for request bodies and long answers is exhausted. Retryable soon.
    #[error("the gateway has no memory for this request or its answer; try again soon")]
    BodyMemoryExhausted,
    /// The media type or encoding of the body is not supported.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// The body violates a rule of the endpoint.
    #[error("{message}")]
    InvalidRequest {
        /// The rule, which is the `code` of the error.
        code: RequestFault,
        /// The path of the field.
        param: Option<String>,
        /// The violation and how to fix it.
        message: String,
    },
    /// A limit was reached. Retryable after `retry_after`.
    #[error(
        "rate limit reached: {kind} of this {scope} (limit {limit}); try again in {} ms",
        .retry_after.as_millis(),
        kind = kind_text(*.kind),
        scope = scope_text(*.scope)
    )]
    RateLimited {
        /// The subject of the limit.
        scope: LimitScope,
        /// The limited quantity.
        kind: LimitKind,
        /// The limit.
        limit: u64,
        /// The time until a retry can succeed.
        retry_after: Duration,
    },
    /// The request alone exceeds a limit. Not retryable unchanged.
    #[error(
        "this request may need {needed} tokens, more than the limit of {limit} {kind} of this {scope}; \
         shorten its input or lower its output cap",
        kind = kind_text(*.kind),
        scope = scope_text(*.scope)
    )]
    LargerThanLimit {
        /// The subject of the limit.
        scope: LimitScope,
        /// The limited quantity.
        kind: LimitKind,
        /// The limit, in tokens.
        limit: u64,
        /// The maximum that the request may use, in tokens.
        needed: u64,
    },
    /// The remaining tokens of the month do not suffice. Not retryable before `until`.
    #[error(
        "what is left of the {limit} tokens per month of this {scope} does not suffice for this request \
         until {until}",
        scope = scope_text(*.scope)
    )]
    QuotaSpent {
        /// The subject of the quota.
        scope: LimitScope,
        /// The quota, in tokens.
        limit: u64,
        /// The end of the month.
        until: Timestamp,
    },
    /// The rest of the key's spending cap does not cover the request. Not retryable.
    #[error(
        "what is left of the {cap} dollars that this key may spend does not pay for this request; \
         raise its cap with `ctl key set ID --spend-cap USD`, or make another key with `ctl key create`"
    )]
    KeyCapSpent {
        /// The spending cap.
        cap: Nanos,
    },
    /// The key's spending cap would cover the request, but is held for other requests.
    #[error(
        "what this key may still spend is held for its requests under way; try again when one has ended"
    )]
    KeyCapHeld,
    /// The output cap would have to be lowered, which a key with strict translation does not
    /// accept.
    #[error(
        "only {cap} output tokens are paid for by the balance, the key's cap or the month's tokens; \
         lower `max_output_tokens`"
    )]
    OutputCapTooHigh {
        /// The affordable cap, in tokens.
        cap: u64,
    },
    /// The balance does not cover the request. Not retryable.
    #[error(
        "the balance of this account does not pay for this request; \
         ask the operator of this gateway for credit (`ctl account credit`)"
    )]
    InsufficientBalance,
    /// The model's deployments changed while the request was being processed.
    #[error("the catalogue changed while this request was on its way; send it again")]
    CatalogueChanged,
    /// The balance would cover the request, but is held for other requests.
    #[error(
        "the balance of this account is held for its requests under way; try again when one has ended"
    )]
    BalanceHeld,
    /// The stored responses that the request references cannot be read.
    #[error("the gateway cannot read stored responses at the moment; try again soon")]
    StateUnavailable,
    /// The first attempt of this request is in progress. Retryable when it has ended.
    #[error(
        "request `{first}` with the same idempotency key is being answered; try again when it has ended"
    )]
    IdempotencyInProgress {
        /// The first attempt.
        first: RequestId,
    },
    /// The request was answered before, and its answer is no longer available. Not retryable.
    #[error(
        "request `{first}` with the same idempotency key was answered before, and its answer is not \
         kept; send a new key to have it answered, and charged, again"
    )]
    IdempotentAnswerGone {
        /// The first attempt.
        first: RequestId,
    },
    /// A different request used the same idempotency key.
    #[error(
        "the idempotency key belongs to request `{first}`, whose endpoint or body was another; send a \
         new key with each new request"
    )]
    IdempotencyKeyReused {
        /// The other request.
        first: RequestId,
    },
    /// The gateway shares a database, and cannot reach it to find out whether another gateway serves
    /// or has answered this request, or too many retries ask for their answers. Retryable.
    #[error(
        "the gateway got no answer from its database, which it needs for a request with an idempotency \
         key; try again soon"
    )]
    IdempotencyUnavailable,
    /// The gateway is shutting down, and the request exceeded the drain timeout. Retryable.
    #[error("the gateway is shutting down and ended this request; send it again")]
    ShuttingDown,
    /// The account's owner or an operator has cancelled the request.
    #[error("this request was cancelled by someone who manages its key or the gateway")]
    RequestCancelled,
    /// The gateway shares a database, and has not reached it for longer than it may serve without.
    #[error("the gateway has not reached its database for too long; try again soon")]
    DatabaseUnreachable,
    /// Requests cannot be recorded at the moment, and unrecorded requests are not served.
    #[error("the gateway cannot record requests at the moment; try again soon")]
    RecorderBehind,
}

/// The reason why a credential is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The request has no credential.
    #[error("no API key was given; send it as `Authorization: Bearer sk-tg-…`")]
    Missing,
    /// The text does not have the form of a key.
    #[error(
        "this is not an API key of this gateway: keys begin with `sk-tg-` and end in a checksum"
    )]
    Malformed,
    /// The key is well-formed but does not exist.
    #[error("unknown API key; make one with `ctl key create`")]
    Unknown,
    /// The key was revoked.
    #[error("this API key was revoked; make another one with `ctl key create`")]
    Revoked,
    /// The key has expired.
    #[error("this API key has expired; make another one with `ctl key create`")]
    Expired,
}

/// The rule that a request body violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The body is not JSON, or not a JSON object.
    InvalidJson,
    /// A field has the wrong type.
    InvalidType,
    /// A field has a value that is not allowed.
    InvalidValue,
    /// A required field is missing.
    MissingRequiredParameter,
    /// A field is not supported.
    UnsupportedParameter,
    /// A tool cannot be represented as a function tool.
    UnsupportedTools,
    /// A `tool_choice` is not supported by the upstream.
    UnsupportedToolChoice,
    /// An input item has no equivalent in chat completions.
    UnsupportedInputItem,
    /// A part of a message or a tool result has no equivalent in chat completions.
    UnsupportedContentPart,
    /// `previous_response_id` names a response that is not stored.
    PreviousResponseNotFound,
}

impl Refusal {
    /// Creates the refusal of a body that violates rule `code` at `param`.
    pub fn invalid(code: RequestFault, param: Option<&str>, message: impl Into<String>) -> Self {
        Self::InvalidRequest { code, param: param.map(str::to_owned), message: message.into() }
    }
}

fn unknown_model(model: &str, suggestion: Option<&str>) -> String {
    let shown: String = model.chars().take(128).collect();
    match suggestion {
        Some(id) => {
            format!("model `{shown}` does not exist: that is a display name, use the id `{id}`")
        }
        None => format!("model `{shown}` does not exist; GET /v1/models lists those that do"),
    }
}

const fn kind_text(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Requests => "requests per minute",
        LimitKind::Tokens => "tokens per minute",
        LimitKind::Concurrency => "concurrent requests",
        LimitKind::MonthlyTokens => "tokens per month",
    }
}

const fn scope_text(scope: LimitScope) -> &'static str {
    match scope {
        LimitScope::Plan => "account's plan",
        LimitScope::Model => "model",
        LimitScope::Key => "key",
    }
}
