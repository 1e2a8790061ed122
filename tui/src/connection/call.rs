//! A single call: how long it may take, and what its failure means for the session.

use tokio::time::timeout;
use tonic::{Code, Response, Status};

use std::time::Duration;

use super::problem;

/// How long an answer may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a session ended.
pub(super) enum SessionError {
    /// The token is not accepted: only signing in helps.
    SignedOut(String),
    /// Anything that may pass; the text says what is wrong.
    Lost(String),
    /// Nobody listens any more.
    Closed,
}

impl From<Status> for SessionError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unauthenticated => Self::SignedOut(problem::signed_out()),
            _ => Self::Lost(problem::call(&status)),
        }
    }
}

/// Waits for an answer, but not for ever.
pub(super) async fn with_timeout<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    match timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}
