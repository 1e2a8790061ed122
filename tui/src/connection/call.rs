//! The timeout of a unary call and the classification of its error.

use tokio::time::timeout;
use tonic::{Code, Response, Status};

use std::time::Duration;

use super::problem;

/// The timeout for a response.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// The reason for the end of a session.
pub(super) enum SessionError {
    /// The gateway rejected the token; the user has to sign in again.
    SignedOut,
    /// A transient error; the text describes it.
    Lost(String),
    /// The receiver of messages or the sender of changes was dropped.
    Closed,
}

impl From<Status> for SessionError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unauthenticated => Self::SignedOut,
            _ => Self::Lost(problem::call(&status)),
        }
    }
}

/// Waits for the response of `call`, at most for [`CALL_TIMEOUT`].
pub(super) async fn with_timeout<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    within_timeout(call).await.map(Response::into_inner)
}

/// Waits for a part of a response, at most for [`CALL_TIMEOUT`].
pub(super) async fn within_timeout<T>(
    part: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match timeout(CALL_TIMEOUT, part).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}
