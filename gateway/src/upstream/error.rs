//! Why an upstream gave no answer.

use std::fmt::Write as _;

use http::HeaderMap;

use domain::wire::error::ForeignError;

/// Any error.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong between us and an upstream.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Its catalogue entry cannot work; the text is for the operator and holds no secret.
    #[error("upstream misconfigured: {0}")]
    Misconfigured(String),
    /// No connection, or none that lasted to the head of the answer.
    #[error("upstream unreachable")]
    Unreachable(#[source] BoxError),
    /// The request was kept back, and never left.
    #[error("the request was kept back")]
    KeptBack(#[source] BoxError),
    /// It took longer than its deadline.
    #[error("upstream timed out {0}")]
    TimedOut(Phase),
    /// It answered with an error.
    #[error("upstream answered HTTP {status}")]
    Refused {
        /// Its HTTP status.
        status: u16,
        /// What it said.
        said: ForeignError,
        /// Its headers, for `retry-after` and the like.
        headers: Box<HeaderMap>,
    },
    /// It reported an error inside of an answer that had begun well.
    #[error("upstream reported an error: {}", .0.message.as_deref().unwrap_or("(no message)"))]
    Reported(ForeignError),
    /// It answered with something that is no chat answer; the text says what is wrong with it.
    #[error("upstream sent an invalid response: {0}")]
    Invalid(String),
    /// Its model did what the request forbids; the text says what.
    #[error("{0}")]
    Disobeyed(String),
    /// Its answer stopped before its end.
    #[error("upstream closed the answer early")]
    CutOff,
}

/// What an upstream took too long for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The head of the answer.
    FirstByte,
    /// The next piece of the answer.
    Idle,
}

impl UpstreamError {
    /// Whether another deployment may be tried: this one has not begun an answer, and the fault is
    /// its own rather than the request's.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Misconfigured(_) | Self::Unreachable(_) | Self::Invalid(_) => true,
            Self::Refused { status, .. } => {
                matches!(status, 401 | 403 | 408 | 429 | 500..)
            }
            Self::KeptBack(_)
            | Self::TimedOut(_)
            | Self::Reported(_)
            | Self::Disobeyed(_)
            | Self::CutOff => false,
        }
    }

    /// Whether it says that the upstream is not well. An error inside of an answer may be about the
    /// request, and a model that disobeys is no fault of its server.
    pub fn is_its_fault(&self) -> bool {
        match self {
            Self::TimedOut(_) | Self::CutOff => true,
            Self::KeptBack(_) | Self::Reported(_) | Self::Disobeyed(_) => false,
            Self::Misconfigured(_)
            | Self::Unreachable(_)
            | Self::Invalid(_)
            | Self::Refused { .. } => self.is_retryable(),
        }
    }

    /// What an operator should read: with the causes, without what the upstream said, which may repeat
    /// its credential or the client's words.
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
            Self::KeptBack(_) => "the gateway could not send it".to_owned(),
            Self::TimedOut(phase) => format!("it took too long {phase}"),
            Self::Refused { status, .. } => format!("it answered HTTP {status}"),
            Self::Reported(_) => "it reported an error inside of its answer".to_owned(),
            Self::Invalid(what) => format!("its answer is not valid: {what}"),
            Self::Disobeyed(what) => what.clone(),
            Self::CutOff => "it closed the answer early".to_owned(),
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FirstByte => "before its answer began",
            Self::Idle => "in the middle of its answer",
        })
    }
}
