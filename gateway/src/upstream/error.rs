//! Why an upstream gave no answer.

use std::fmt::Write as _;

use http::HeaderMap;

use domain::wire::error::ReportedError;

/// Any error.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A failure between the gateway and an upstream.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The catalogue entry cannot work. The text is for the operator and contains no secret.
    #[error("upstream misconfigured: {0}")]
    Misconfigured(String),
    /// No connection, or the connection broke before the head of the answer.
    #[error("upstream unreachable")]
    Unreachable(#[source] BoxError),
    /// The journal could not be flushed, so the request was not sent.
    #[error("the request was kept back")]
    JournalUnavailable(#[source] BoxError),
    /// A deadline passed.
    #[error("upstream timed out {0}")]
    TimedOut(Phase),
    /// The upstream returned an error status.
    #[error("upstream answered HTTP {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error body.
        body: ReportedError,
        /// The headers, for `retry-after` and the like.
        headers: Box<HeaderMap>,
    },
    /// The upstream reported an error inside an answer that had begun.
    #[error("upstream reported an error: {}", .0.message.as_deref().unwrap_or("(no message)"))]
    Reported(ReportedError),
    /// The answer is not a chat answer; the text describes what is wrong.
    #[error("upstream sent an invalid response: {0}")]
    Invalid(String),
    /// The model violated a constraint of the request; the text describes which.
    #[error("{0}")]
    ConstraintViolation(String),
    /// The answer ended early.
    #[error("upstream closed the answer early")]
    CutOff,
}

/// The part of an answer that missed its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The connection, including its TLS handshake.
    Connect,
    /// The head of the answer.
    FirstByte,
    /// The next bytes of the answer.
    Idle,
}

impl UpstreamError {
    /// Returns whether another deployment may be tried: no answer has begun, and the fault may be the server's. A
    /// status 404 may mean that this server does not have the model.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Misconfigured(_)
            | Self::Unreachable(_)
            | Self::TimedOut(Phase::Connect | Phase::FirstByte)
            | Self::Invalid(_) => true,
            Self::Refused { status, .. } => {
                matches!(status, 401..=404 | 408 | 429 | 500..)
            }
            Self::JournalUnavailable(_)
            | Self::TimedOut(Phase::Idle)
            | Self::Reported(_)
            | Self::ConstraintViolation(_)
            | Self::CutOff => false,
        }
    }

    /// Returns whether the failure counts against the upstream's health. Errors inside an answer may be
    /// caused by the request, and a constraint violation is the model's, not the server's.
    pub fn is_upstream_fault(&self) -> bool {
        match self {
            Self::TimedOut(_) | Self::CutOff => true,
            Self::JournalUnavailable(_)
            | Self::Reported(_)
            | Self::ConstraintViolation(_)
            // The client may have caused it, by a parameter that names something.
            | Self::Refused { status: 404, .. } => false,
            Self::Misconfigured(_)
            | Self::Unreachable(_)
            | Self::Invalid(_)
            | Self::Refused { .. } => self.is_retryable(),
        }
    }

    /// Returns a text for operators: the chain of causes, without the upstream's own text, which may repeat
    /// its credential or the client's prompt.
    pub fn for_operators(&self) -> String {
        match self {
            Self::Misconfigured(what) => format!("its catalogue entry cannot work: {what}"),
            Self::Unreachable(source) => {
                let mut text = "it cannot be reached".to_owned();
                let mut cause: Option<&dyn std::error::Error> = Some(&**source);
                while let Some(error) = cause {
                    _ = write!(text, ": {error}");
                    cause = error.source();
                }
                text
            }
            Self::JournalUnavailable(_) => "the gateway could not send it".to_owned(),
            Self::TimedOut(phase) => format!("it took too long {phase}"),
            Self::Refused { status, .. } => format!("it answered HTTP {status}"),
            Self::Reported(_) => "it reported an error inside of its answer".to_owned(),
            Self::Invalid(what) => format!("its answer is not valid: {what}"),
            Self::ConstraintViolation(what) => what.clone(),
            Self::CutOff => "it closed the answer early".to_owned(),
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "to accept a connection",
            Self::FirstByte => "before its answer began",
            Self::Idle => "in the middle of its answer",
        })
    }
}
