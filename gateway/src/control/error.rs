//! The error of all control operations, with messages that the caller can act on.
//!
//! Must not know status codes; `admin/status.rs` maps the variants to them.

use std::time::Duration;

use domain::ValidationError;
use domain::idempotency::CompletedCall;
use domain::text::is_hidden;
use store::StoreError;

/// The error of a control operation. `Display` is the message for the caller.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The named object does not exist, or the caller may not see it.
    #[error("{0}")]
    NotFound(String),
    /// The object to be added exists already.
    #[error("{0}")]
    Exists(String),
    /// The object cannot be changed or removed in its present state, or while another one depends
    /// on it.
    #[error("{0}")]
    InUse(String),
    /// A field of the request is invalid.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// The gateway's own settings or files cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// The credentials are missing or wrong.
    #[error("{0}")]
    Unauthenticated(String),
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// The gateway is overloaded or shutting down; the call can be retried.
    #[error("{0}")]
    Busy(String),
    /// The caller exceeded a rate limit; the call can be retried after `retry_after`.
    #[error("{message}")]
    Limited {
        /// Names the limit and the time to wait.
        message: String,
        /// The time until the next attempt can succeed.
        retry_after: Duration,
    },
    /// A call with the same idempotency key was completed before.
    #[error("this call was made before under the same idempotency key")]
    Repeated(CompletedCall),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ControlError {
    /// Returns the error for a `noun` that does not exist or that the caller may not see; the
    /// messages are identical.
    pub(super) fn missing(noun: &str, name: &str) -> Self {
        let name = printable(name);
        Self::NotFound(format!(
            "{noun} `{name}` does not exist; `ctl {noun} list` shows those that do"
        ))
    }
}

impl ControlError {
    /// Prefixes the message with `title`, which names one of several changes.
    #[must_use]
    pub(super) fn with_subject(self, title: &str) -> Self {
        let titled = |message: String| format!("{title}: {message}");
        match self {
            Self::NotFound(message) => Self::NotFound(titled(message)),
            Self::Exists(message) => Self::Exists(titled(message)),
            Self::InUse(message) => Self::InUse(titled(message)),
            Self::Invalid(ValidationError { field, message }) => {
                Self::Invalid(ValidationError { field, message: titled(message) })
            }
            Self::Configuration(_)
            | Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::Busy(_)
            | Self::Limited { .. }
            | Self::Repeated(_)
            | Self::Store(_) => self,
        }
    }
}

/// Returns caller-supplied text for use in a message: at most 128 characters, hidden ones replaced
/// by `?`.
pub(super) fn printable(text: &str) -> String {
    text.chars().take(128).map(|c| if is_hidden(c) { '?' } else { c }).collect()
}
