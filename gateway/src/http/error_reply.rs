//! The only table from faults to HTTP status codes, error types and codes.
//!
//! It matches without `_`, so that a new fault does not compile until it is handled here.
#![warn(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use crate::ledger::DiskSync;
use crate::pipeline::Fault;
use crate::pipeline::outcome::{REQUEST_CANCELLED, RequestOutcome, SHUTTING_DOWN};
use crate::pipeline::rate_limit_headers;
use crate::pipeline::relay::BrokenStream;
use crate::pipeline::stream_adapter::StreamAdapter;
use crate::upstream::{RETRY_AFTER_HEADERS, UpstreamError};
use domain::limit::LimitStatus;
use domain::refusal::{Refusal, RequestFault};
use domain::wire::error::{ErrorBody, ReportedError};
use translate::answer::StreamFailure;

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// The longest wait that an upstream may demand of a client.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// When to retry a request that is being answered to another client.
const IDEMPOTENCY_WAIT: Duration = Duration::from_secs(5);

/// An error that is ready to be sent.
#[derive(Debug)]
pub(super) struct ErrorReply {
    pub(super) status: StatusCode,
    kind: &'static str,
    code: Option<String>,
    param: Option<String>,
    message: String,
    pub(super) headers: HeaderMap,
}

/// Settles a stream that broke, and returns the events that report the error in the format of its endpoint,
/// and the wait before they are sent.
pub(super) fn error_event(broken: BrokenStream) -> (Bytes, Option<DiskSync>) {
    tracing::warn!(event = "stream_broken", request_id = %broken.request.id(), error = %broken.fault, "a stream broke");
    let error = ErrorReply::from(&broken.fault).with_wait_in_message();
    let status = broken.fault.status_of_stream();
    let end = RequestOutcome { status, http_status: Some(200), error_code: error.code.clone() };
    let usage = broken.request.known_usage(status);
    let syncing = broken.request.fail(&broken.fault, end);
    let mut out = BytesMut::new();
    match broken.adapter {
        StreamAdapter::Responses(mut exchange) => exchange.fail(&error.failure(), usage, &mut out),
        StreamAdapter::Chat(_) | StreamAdapter::Taken => {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(&error.body().to_json());
            out.extend_from_slice(b"\n\n");
        }
    }
    (broken.memory.attach(out.freeze()), syncing)
}

// === impl ErrorReply ===

impl ErrorReply {
    /// Returns the reply to a request that panicked.
    pub(super) fn internal() -> Self {
        let message = "the gateway has a bug and could not serve this request; it is logged";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal_error", message)
    }

    /// Returns the reply to a head of a request that HTTP/1 cannot read, or that does not arrive in time.
    pub(super) fn protocol(status: StatusCode) -> Self {
        let (code, message) = match status {
            StatusCode::REQUEST_TIMEOUT => (
                "request_timeout",
                "the head of the request did not arrive in time; send it again, on a new connection",
            ),
            StatusCode::URI_TOO_LONG => {
                ("uri_too_long", "the URL is too long; send its parameters in the body")
            }
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
                "headers_too_large",
                "the head of the request is too long or has too many headers; send fewer or shorter ones, such \
                 as fewer cookies",
            ),
            _ => (
                "malformed_request",
                "this is not a valid HTTP/1.1 request; check its request line and headers, and whether the URL \
                 must begin with `https:`",
            ),
        };
        Self::new(status, "invalid_request_error", code, message)
    }

    /// Adds the state of the request's limits to the headers.
    pub(super) fn show(&mut self, limits: &LimitStatus) {
        rate_limit_headers::insert(&mut self.headers, limits);
    }

    /// Returns the outcome for the record.
    pub(super) fn outcome(&self, fault: &Fault) -> RequestOutcome {
        RequestOutcome {
            status: fault.status(),
            http_status: Some(self.status.as_u16()),
            error_code: self.code.clone(),
        }
    }

    fn new(status: StatusCode, kind: &'static str, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: Some(code.to_owned()),
            param: None,
            message: message.into(),
            headers: HeaderMap::new(),
        }
    }

    /// Returns the error of a failed Responses object, whose codes are a set of their own (§5.7).
    fn failure(&self) -> StreamFailure<'_> {
        let code = match self.code.as_deref() {
            Some(
                code @ ("rate_limit_exceeded"
                | "insufficient_quota"
                | "context_length_exceeded"
                | "invalid_prompt"),
            ) => code,
            Some("server_overloaded" | "upstream_overloaded") => "server_is_overloaded",
            _ => "server_error",
        };
        StreamFailure { code, kind: self.kind, message: &self.message }
    }

    /// Appends the retry delay to the message, for clients that cannot see headers.
    fn with_wait_in_message(mut self) -> Self {
        let wait = self.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        if let Some(seconds) = wait.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())) {
            self.message = format!("{}; try again in {seconds}s", self.message);
        }
        self
    }

    /// Returns the body of the response.
    pub(super) fn body(&self) -> ErrorBody<'_> {
        ErrorBody {
            message: &self.message,
            kind: self.kind,
            param: self.param.as_deref(),
            code: self.code.as_deref(),
        }
    }

    fn param(mut self, param: Option<impl Into<String>>) -> Self {
        self.param = param.map(Into::into);
        self
    }

    fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.insert(name, value.into());
        self
    }

    /// Tells SDKs not to retry if the status alone would make them.
    fn no_retry(self) -> Self {
        self.header(SHOULD_RETRY, HeaderValue::from_static("false"))
    }

    fn retry_after(self, wait: Duration) -> Self {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        self.header(RETRY_AFTER, millis.div_ceil(1000)).header(RETRY_AFTER_MS, millis)
    }
}

impl From<&Fault> for ErrorReply {
    fn from(fault: &Fault) -> Self {
        match fault {
            Fault::Refused(refusal) => Self::from(refusal),
            Fault::Upstream(error) => Self::from(error),
        }
    }
}

impl From<&Refusal> for ErrorReply {
    fn from(refusal: &Refusal) -> Self {
        const INVALID: &str = "invalid_request_error";
        const LIMIT: &str = "rate_limit_error";
        let invalid = |status, code: &str| Self::new(status, INVALID, code, refusal.to_string());
        let limited =
            |code: &str| Self::new(StatusCode::TOO_MANY_REQUESTS, LIMIT, code, refusal.to_string());
        match refusal {
            Refusal::InvalidApiKey(_) => invalid(StatusCode::UNAUTHORIZED, "invalid_api_key"),
            Refusal::RequestCancelled => {
                invalid(StatusCode::FORBIDDEN, REQUEST_CANCELLED).no_retry()
            }
            Refusal::AccountSuspended => invalid(StatusCode::FORBIDDEN, "account_suspended"),
            Refusal::ModelNotAllowed { .. } => {
                invalid(StatusCode::FORBIDDEN, "model_not_allowed").param(Some("model"))
            }
            Refusal::ModelNotFound { .. } => {
                invalid(StatusCode::NOT_FOUND, "model_not_found").param(Some("model"))
            }
            Refusal::UnknownUrl { .. } => invalid(StatusCode::NOT_FOUND, "unknown_url"),
            Refusal::MethodNotAllowed { allowed, .. } => {
                invalid(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed")
                    .header(http::header::ALLOW, HeaderValue::from_static(allowed))
            }
            Refusal::WebSocket => invalid(StatusCode::UPGRADE_REQUIRED, "websocket_unsupported")
                .header(http::header::UPGRADE, HeaderValue::from_static("HTTP/1.1")),
            Refusal::ResponseNotFound { .. } => {
                invalid(StatusCode::NOT_FOUND, "response_not_found")
            }
            Refusal::RequestTooLarge { .. } => {
                invalid(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large")
            }
            Refusal::BodyBrokenOff => invalid(StatusCode::BAD_REQUEST, "invalid_json"),
            Refusal::BodyTooSlow => invalid(StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Refusal::UnsupportedMediaType(_) => {
                invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Refusal::InvalidRequest { code, param, .. } => {
                invalid(StatusCode::BAD_REQUEST, fault_code(*code)).param(param.as_deref())
            }
            Refusal::IdempotencyInProgress { .. } => {
                invalid(StatusCode::CONFLICT, "idempotency_in_progress")
                    .retry_after(IDEMPOTENCY_WAIT)
            }
            Refusal::IdempotentAnswerGone { .. } => {
                invalid(StatusCode::CONFLICT, "idempotent_answer_gone").no_retry()
            }
            Refusal::IdempotencyKeyReused { .. } => {
                invalid(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused")
            }
            Refusal::RateLimited { retry_after, .. } => {
                limited("rate_limit_exceeded").retry_after(*retry_after)
            }
            Refusal::BalanceHeld | Refusal::KeyCapHeld => {
                limited("rate_limit_exceeded").retry_after(Duration::from_secs(1))
            }
            Refusal::LargerThanLimit { .. } => limited("rate_limit_exceeded").no_retry(),
            Refusal::InsufficientBalance
            | Refusal::QuotaSpent { .. }
            | Refusal::KeyCapSpent { .. }
            | Refusal::OutputCapTooHigh { .. } => limited("insufficient_quota").no_retry(),
            Refusal::ShuttingDown => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                SHUTTING_DOWN,
                refusal.to_string(),
            )
            .retry_after(Duration::from_secs(1)),
            Refusal::DatabaseUnreachable | Refusal::IdempotencyUnavailable => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                "database_unreachable",
                refusal.to_string(),
            )
            .retry_after(Duration::from_secs(1)),
            Refusal::RecorderBehind
            | Refusal::StateUnavailable
            | Refusal::CatalogueChanged
            | Refusal::BodyMemoryExhausted => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                "server_overloaded",
                refusal.to_string(),
            )
            .retry_after(Duration::from_secs(1)),
        }
    }
}

impl From<&UpstreamError> for ErrorReply {
    fn from(error: &UpstreamError) -> Self {
        let failed =
            |status, code: &str, message: &str| Self::new(status, "server_error", code, message);
        match error {
            UpstreamError::Misconfigured(_) | UpstreamError::Redirected { .. } => failed(
                StatusCode::BAD_GATEWAY,
                "upstream_unreachable",
                "the upstream of this model is misconfigured; ask the operator of this gateway",
            )
            .no_retry(),
            UpstreamError::Unreachable(_) => failed(
                StatusCode::BAD_GATEWAY,
                "upstream_unreachable",
                "the upstream of this model cannot be reached",
            ),
            UpstreamError::JournalUnavailable(_) => Self::from(&Refusal::RecorderBehind),
            UpstreamError::Overloaded => failed(
                StatusCode::SERVICE_UNAVAILABLE,
                "upstream_overloaded",
                "the upstream of this model has as many requests as it may have",
            )
            .retry_after(Duration::from_secs(1)),
            UpstreamError::TimedOut(_) => {
                failed(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", "the upstream timed out")
            }
            UpstreamError::Invalid(_) => failed(
                StatusCode::BAD_GATEWAY,
                "upstream_invalid_response",
                "the upstream sent something that is not a chat answer",
            ),
            UpstreamError::CutOff => failed(
                StatusCode::BAD_GATEWAY,
                "upstream_invalid_response",
                "the upstream closed its answer early",
            ),
            UpstreamError::ConstraintViolation(text) => {
                failed(StatusCode::BAD_GATEWAY, "upstream_invalid_response", text)
            }
            UpstreamError::Reported(said) => reported(said),
            UpstreamError::Refused { status, body, headers } => refused(*status, body, headers),
        }
    }
}

/// Maps an error inside an answer to the refusal that it would have been.
fn reported(said: &ReportedError) -> ErrorReply {
    let status = match said.code.as_deref() {
        _ if said.is_context_overflow() => 400,
        Some("rate_limit_exceeded" | "insufficient_quota" | "429") => 429,
        _ => 500,
    };
    refused(status, said, &HeaderMap::new())
}

/// Maps an upstream's refusal (`translate::rules`, §6): it keeps its status if it concerns the request, and becomes a 5xx
/// if it concerns our credential or the upstream's health.
fn refused(status: u16, said: &ReportedError, headers: &HeaderMap) -> ErrorReply {
    let text = message(said, status);
    let failed = |status, code: &str| ErrorReply::new(status, "server_error", code, text.as_str());
    match status {
        // The upstream's text concerns our credential or our account, and may repeat them.
        401..=403 => ErrorReply::new(
            StatusCode::BAD_GATEWAY,
            "server_error",
            "upstream_error",
            if status == 402 {
                "the upstream demands payment from the gateway; ask the operator of this gateway"
            } else {
                "the upstream refused the gateway's credential; ask the operator of this gateway"
            },
        )
        .no_retry(),
        408 | 504 => failed(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
        429 => {
            let mut reply = ErrorReply::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_error",
                if said.code.as_deref() == Some("insufficient_quota") {
                    "insufficient_quota"
                } else {
                    "rate_limit_exceeded"
                },
                text.as_str(),
            );
            copy_retry_after(headers, &mut reply.headers);
            reply
        }
        400..500 => ErrorReply {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST),
            kind: "invalid_request_error",
            code: if said.is_context_overflow() {
                Some("context_length_exceeded".to_owned())
            } else {
                said.code.clone()
            },
            param: said.param.clone(),
            message: text.clone(),
            headers: HeaderMap::new(),
        },
        503 => {
            let mut reply = failed(StatusCode::SERVICE_UNAVAILABLE, "server_overloaded");
            copy_retry_after(headers, &mut reply.headers);
            reply
        }
        _ => failed(StatusCode::BAD_GATEWAY, "upstream_error"),
    }
}

/// Copies the headers that say when to try again if they are numbers of up to [`MAX_RETRY_AFTER`].
fn copy_retry_after(from: &HeaderMap, to: &mut HeaderMap) {
    for (name, unit) in RETRY_AFTER_HEADERS {
        let Some(value) = from.get(&name) else { continue };
        let count = value.to_str().ok().and_then(|text| text.trim().parse::<u32>().ok());
        let Some(count) = count else { continue };
        let wait = unit.checked_mul(count);
        if wait.is_some_and(|wait| wait <= MAX_RETRY_AFTER) {
            to.insert(name, HeaderValue::from(count));
        }
    }
}

fn message(said: &ReportedError, status: u16) -> String {
    said.message.clone().unwrap_or_else(|| format!("upstream returned HTTP {status}"))
}

const fn fault_code(fault: RequestFault) -> &'static str {
    match fault {
        RequestFault::InvalidJson => "invalid_json",
        RequestFault::InvalidType => "invalid_type",
        RequestFault::InvalidValue => "invalid_value",
        RequestFault::MissingRequiredParameter => "missing_required_parameter",
        RequestFault::UnsupportedParameter => "unsupported_parameter",
        RequestFault::UnsupportedTools => "unsupported_tools",
        RequestFault::UnsupportedToolChoice => "unsupported_tool_choice",
        RequestFault::UnsupportedInputItem => "unsupported_input_item",
        RequestFault::UnsupportedContentPart => "unsupported_content_part",
        RequestFault::PreviousResponseNotFound => "previous_response_not_found",
    }
}
