//! Why an operation was not done, in words that its caller can act on.
//!
//! Knows no status code; `admin/status.rs` has the table.

use std::time::Duration;

use domain::Invalid;
use domain::idempotency::DoneCall;
use domain::text::is_hidden;
use store::StoreError;

/// Why an operation was not done. `Display` is what the caller reads.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// What the call names does not exist, or is not the caller's to see.
    #[error("{0}")]
    NotFound(String),
    /// What the call adds is there already.
    #[error("{0}")]
    Exists(String),
    /// What the call removes is needed by something else.
    #[error("{0}")]
    InUse(String),
    /// A value of the call breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Nobody is signed in, or not with what was given.
    #[error("{0}")]
    Unauthenticated(String),
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// Too much is going on; worth a retry.
    #[error("{0}")]
    Busy(String),
    /// The caller has done so too often; worth a retry later.
    #[error("{message}")]
    Limited {
        /// Which limit, and when to try again.
        message: String,
        /// How long to wait.
        retry_after: Duration,
    },
    /// The same call was made before, under the same idempotency key.
    #[error("this call was made before under the same idempotency key")]
    Repeated(DoneCall),
    /// The store did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ControlError {
    /// There is no `noun` of this name, or none that the caller may see: the two read the same.
    pub(super) fn missing(noun: &str, name: &str) -> Self {
        let name = shown(name);
        Self::NotFound(format!(
            "{noun} `{name}` does not exist; `ctl {noun} list` shows those that do"
        ))
    }
}

impl ControlError {
    /// Says in front of the message what it is about, as one of several changes.
    #[must_use]
    pub(super) fn about(self, title: &str) -> Self {
        let titled = |message: String| format!("{title}: {message}");
        match self {
            Self::NotFound(message) => Self::NotFound(titled(message)),
            Self::Exists(message) => Self::Exists(titled(message)),
            Self::InUse(message) => Self::InUse(titled(message)),
            Self::Invalid(Invalid { field, message }) => {
                Self::Invalid(Invalid { field, message: titled(message) })
            }
            Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::Busy(_)
            | Self::Limited { .. }
            | Self::Repeated(_)
            | Self::Store(_) => self,
        }
    }
}

/// A text of the caller's as it may stand in a message: short, and without hidden characters.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(128).map(|c| if is_hidden(c) { '?' } else { c }).collect()
}
