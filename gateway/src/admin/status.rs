//! Maps [`ControlError`] to a gRPC status.
//!
//! The details of store errors are logged here, once, and are not sent to the caller.
#![warn(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::control::ControlError;
use domain::ValidationError;
use store::StoreError;

impl From<ControlError> for Status {
    fn from(error: ControlError) -> Self {
        let code = match &error {
            ControlError::NotFound(_) => Code::NotFound,
            ControlError::Exists(_) | ControlError::Repeated(_) => Code::AlreadyExists,
            ControlError::InUse(_) | ControlError::Configuration(_) => Code::FailedPrecondition,
            ControlError::Invalid(_) => Code::InvalidArgument,
            ControlError::Unauthenticated(_) => Code::Unauthenticated,
            ControlError::Forbidden(_) => Code::PermissionDenied,
            ControlError::Busy(_) => Code::ResourceExhausted,
            ControlError::Limited { message, retry_after } => {
                return limited(message, *retry_after);
            }
            ControlError::Store(store) => return of_store(store),
        };
        Self::new(code, error.to_string())
    }
}

/// Adds the metadata entry `retry-after`, in seconds.
fn limited(message: &str, retry_after: Duration) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("retry-after", retry_after.as_secs().into());
    Status::with_metadata(Code::ResourceExhausted, message, metadata)
}

/// [`crate::control`] validates changes before it writes. [`StoreError::NotFound`] and [`StoreError::Conflict`]
/// therefore mean that a concurrent change was committed in between.
fn of_store(error: &StoreError) -> Status {
    match error {
        StoreError::NotFound => {
            Status::aborted("the object was changed at the same time by another call; try again")
        }
        StoreError::Stale => Status::aborted(format!("{error}; try again")),
        StoreError::Conflict(text) => Status::aborted(format!("{text}; try again")),
        StoreError::Disk { fault, .. } => {
            let cause: &dyn std::error::Error = error;
            tracing::error!(error = cause, "an admin call failed because of a disk fault");
            Status::unavailable(format!("{fault}: free space or repair it; see `ctl doctor`"))
        }
        StoreError::Unsupported(text) => Status::unimplemented(*text),
        StoreError::Unavailable(_) | StoreError::Unopened { .. } => {
            let cause: &dyn std::error::Error = error;
            tracing::error!(error = cause, "an admin call failed because of the store");
            Status::unavailable("the database is not available; try again")
        }
    }
}

/// Returns the status for a request with an invalid field.
pub(super) fn invalid(error: ValidationError) -> Status {
    ControlError::from(error).into()
}
