//! Why a request is not served, in words that the caller can act on.
//!
//! Knows no HTTP status; `http/error_reply.rs` has the table.

use std::time::Duration;

use jiff::Timestamp;

use super::id::RequestId;
use super::limit::{LimitKind, LimitScope};
use super::money::Nanos;

/// A request that we refuse. `Display` is what the caller reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No credential, or none that we made and that still holds.
    #[error("{0}")]
    InvalidApiKey(KeyFault),
    /// The account was suspended.
    #[error("this account is suspended; ask the operator of this gateway")]
    AccountSuspended,
    /// The plan or the key does not include the model.
    #[error("model `{model}` is not available to this {}", if *.by_key { "key" } else { "account's plan" })]
    ModelNotAllowed {
        /// The model as the client named it.
        model: String,
        /// Whether the key (rather than the plan) leaves it out.
        by_key: bool,
    },
    /// The catalogue does not have the model.
    #[error("{}", unknown_model(.model, .meant.as_deref()))]
    ModelNotFound {
        /// The model as the client named it.
        model: String,
        /// The id of the model whose display name this is.
        meant: Option<String>,
    },
    /// There is nothing at this path.
    #[error(
        "unknown path `{path}`; this gateway serves /v1/models, /v1/chat/completions and /v1/responses"
    )]
    UnknownUrl {
        /// The path.
        path: String,
    },
    /// There is something at this path, but not for this method.
    #[error("method `{method}` is not allowed here; use {allowed}")]
    MethodNotAllowed {
        /// The method.
        method: String,
        /// The methods that are.
        allowed: &'static str,
    },
    /// There is a WebSocket at this path in the original, but not here.
    #[error("WebSockets are not served here; POST the request instead, with `stream` for a stream")]
    WebSocket,
    /// No response of this account has this id.
    #[error("response `{id}` was not found: it was never stored, was deleted, or is too old")]
    ResponseNotFound {
        /// The id that was asked for.
        id: String,
    },
    /// The body is larger than we take.
    #[error("the request body is larger than {limit_bytes} bytes, the limit of this gateway")]
    RequestTooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The body did not come in time.
    #[error("the request body did not arrive in time; send it again")]
    BodyTooSlow,
    /// The body broke off, or is not framed as its headers say.
    #[error("the request body broke off or is not framed correctly; send it again")]
    BodyBrokenOff,
    /// The gateway's memory for request bodies is used up. Worth a retry soon.
    #[error("the gateway is receiving as many request bodies as it has memory for; try again soon")]
    BodyMemoryExhausted,
    /// The body is of a kind that we do not read.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// The body breaks a rule of the endpoint.
    #[error("{message}")]
    InvalidRequest {
        /// Which rule, as the `code` of the error.
        code: RequestFault,
        /// The field, as a path.
        param: Option<String>,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A limit was reached. Worth a retry after the given time.
    #[error(
        "rate limit reached: {kind} of this {scope} (limit {limit}); try again in {} ms",
        .retry_after.as_millis(),
        kind = kind_text(*.kind),
        scope = scope_text(*.scope)
    )]
    RateLimited {
        /// What the limit belongs to.
        scope: LimitScope,
        /// What it counts.
        kind: LimitKind,
        /// The limit.
        limit: u64,
        /// When to try again.
        retry_after: Duration,
    },
    /// The request alone needs more than a limit. Not worth a retry as it is.
    #[error(
        "this request may need {needed} tokens, more than the limit of {limit} {kind} of this {scope}; \
         shorten its input or lower its output cap",
        kind = kind_text(*.kind),
        scope = scope_text(*.scope)
    )]
    LargerThanLimit {
        /// What the limit belongs to.
        scope: LimitScope,
        /// What it counts.
        kind: LimitKind,
        /// The limit, in tokens.
        limit: u64,
        /// What the request needs, at most, in tokens.
        needed: u64,
    },
    /// What is left of the month's tokens does not suffice. Not worth a retry before its end.
    #[error(
        "what is left of the {limit} tokens per month of this {scope} does not suffice for this request \
         until {until}",
        scope = scope_text(*.scope)
    )]
    QuotaSpent {
        /// What the quota belongs to.
        scope: LimitScope,
        /// The quota.
        limit: u64,
        /// When the month ends.
        until: Timestamp,
    },
    /// What is left of the key's cap does not pay for the request. Not worth a retry.
    #[error(
        "what is left of the {cap} dollars that this key may spend does not pay for this request; \
         make another one with `ctl key create`"
    )]
    KeyCapSpent {
        /// Its cap.
        cap: Nanos,
    },
    /// The key's cap would pay for it, but is held for other requests.
    #[error(
        "what this key may still spend is held for its requests under way; try again when one has ended"
    )]
    KeyCapHeld,
    /// The answer would have to be shorter than the client allows, and the key takes no losses.
    #[error(
        "only {cap} output tokens are paid for by the balance, the key's cap or the month's tokens; \
         lower `max_output_tokens`"
    )]
    OutputCapTooHigh {
        /// The cap that could be had, in tokens.
        cap: u64,
    },
    /// The balance does not pay for the request. Not worth a retry.
    #[error(
        "the balance of this account does not pay for this request; \
         ask the operator of this gateway for credit (`ctl account credit`)"
    )]
    InsufficientBalance,
    /// The model was moved while the request was on its way.
    #[error("the catalogue changed while this request was on its way; send it again")]
    CatalogueChanged,
    /// The balance would pay for it, but is held for other requests.
    #[error(
        "the balance of this account is held for its requests under way; try again when one has ended"
    )]
    BalanceHeld,
    /// We cannot read what the request refers to.
    #[error("the gateway cannot read stored responses at the moment; try again soon")]
    StateUnavailable,
    /// The first attempt of this request is under way. Worth a retry when it has ended.
    #[error(
        "request `{first}` with the same idempotency key is being answered; try again when it has ended"
    )]
    IdempotencyInProgress {
        /// The first attempt.
        first: RequestId,
    },
    /// The request was answered before, and its answer is not kept. Not worth a retry.
    #[error(
        "request `{first}` with the same idempotency key was answered before, and its answer is not \
         kept; send a new key to have it answered, and charged, again"
    )]
    IdempotentAnswerGone {
        /// The first attempt.
        first: RequestId,
    },
    /// Another request came with the same idempotency key.
    #[error(
        "the idempotency key belongs to request `{first}`, whose endpoint or body was another; send a \
         new key with each new request"
    )]
    IdempotencyKeyReused {
        /// The other request.
        first: RequestId,
    },
    /// The gateway shuts down, and the request took longer than that waits. Worth a retry.
    #[error("the gateway is shutting down and ended this request; send it again")]
    ShuttingDown,
    /// We cannot keep records at the moment, and do not serve without.
    #[error("the gateway cannot record requests at the moment; try again soon")]
    RecorderBehind,
}

/// What is wrong with a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// There is none.
    #[error("no API key was given; send it as `Authorization: Bearer sk-tg-…`")]
    Missing,
    /// It is not of the form of a key.
    #[error(
        "this is not an API key of this gateway: keys begin with `sk-tg-` and end in a checksum"
    )]
    Malformed,
    /// It has the form, but we do not know it.
    #[error("unknown API key; make one with `ctl key create`")]
    Unknown,
    /// It was revoked.
    #[error("this API key was revoked; make another one with `ctl key create`")]
    Revoked,
    /// It has ended.
    #[error("this API key has expired; make another one with `ctl key create`")]
    Expired,
}

/// The rule that a request body breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// It is not JSON, or not a JSON object.
    InvalidJson,
    /// A field has the wrong type.
    InvalidType,
    /// A field has a value that is not allowed.
    InvalidValue,
    /// A field is missing.
    MissingRequiredParameter,
    /// A field that we cannot honour.
    UnsupportedParameter,
    /// Tools that no function can stand for.
    UnsupportedTools,
    /// A choice of tools that the upstream would not obey.
    UnsupportedToolChoice,
    /// An input item that cannot be said in chat.
    UnsupportedInputItem,
    /// A part of a message or of a tool's result that cannot be said in chat.
    UnsupportedContentPart,
    /// The response that the request goes on from is not kept here.
    PreviousResponseNotFound,
}

impl Refusal {
    /// A body that breaks rule `code` at `param`.
    pub fn invalid(code: RequestFault, param: Option<&str>, message: impl Into<String>) -> Self {
        Self::InvalidRequest { code, param: param.map(str::to_owned), message: message.into() }
    }
}

fn unknown_model(model: &str, meant: Option<&str>) -> String {
    let shown: String = model.chars().take(128).collect();
    match meant {
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
