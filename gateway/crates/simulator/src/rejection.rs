//! The simulator's error responses, in OpenAI's format. Pure.

use http::StatusCode;
use serde_json::{Value, json};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) status: StatusCode,
    pub(super) code: Option<&'static str>,
    pub(super) param: Option<&'static str>,
    pub(super) message: String,
    /// The `retry-after` header, in seconds.
    pub(super) retry_after: Option<u64>,
}

impl Rejection {
    /// The error for an invalid request, with the invalid field `param`.
    pub(super) fn invalid(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { param, ..Self::new(StatusCode::BAD_REQUEST, None, message) }
    }

    /// An error with any status.
    pub(super) fn new(
        status: StatusCode,
        code: Option<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Self { status, code, param: None, message: message.into(), retry_after: None }
    }

    /// The error that a script requests.
    pub(super) fn scripted(status: u16, retry_after: Option<u64>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let code = match status {
            StatusCode::UNAUTHORIZED => Some("invalid_api_key"),
            StatusCode::NOT_FOUND => Some("model_not_found"),
            StatusCode::TOO_MANY_REQUESTS => Some("rate_limit_exceeded"),
            _ => None,
        };
        Self { retry_after, ..Self::new(status, code, format!("simulated error {status}")) }
    }

    /// Returns the JSON body.
    pub(super) fn body(&self) -> Value {
        let kind = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "requests",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": {
            "message": self.message, "type": kind, "param": self.param, "code": self.code,
        } })
    }
}
