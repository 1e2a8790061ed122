//! Captures of requests by operators, for debugging. Starting one and reading a message are in the audit log.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::access::Permission;
use super::{Caller, Control, ControlError};
use crate::capture::WireMessage;
use domain::ValidationError;
use domain::audit::AuditAction;
use domain::id::{KeyId, RequestId};

/// The longest capture.
const MAX_DURATION: Duration = Duration::from_hours(1);

impl Control {
    /// Captures the requests of a key for `duration` in this gateway. Returns the end.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] without the permission and for a key of an account with a greater role than the caller's,
    /// [`ControlError::NotFound`] for an unknown key, [`ControlError::Invalid`] for a duration of zero or more than an hour,
    /// [`ControlError::InUse`] if too many keys are captured.
    pub async fn capture_requests(
        self: &Arc<Self>,
        caller: &Caller,
        key: &str,
        duration: Duration,
    ) -> Result<Timestamp, ControlError> {
        caller.require(Permission::CaptureRequests)?;
        if duration.is_zero() || duration > MAX_DURATION {
            let message = "a capture lasts from a second to an hour";
            return Err(ValidationError::new("seconds", message).into());
        }
        let (key, _) = self.visible_key(caller, &KeyId::new(key)).await?;
        if let Some(owner) = self.directory.find_account(key.account) {
            caller.require_on(&owner, Permission::CaptureRequests)?;
        }
        self.write(Some(caller), move |control| async move {
            let now = control.clock.now();
            let until =
                SignedDuration::try_from(duration).ok().and_then(|it| now.checked_add(it).ok());
            let until = until.unwrap_or(Timestamp::MAX);
            let action = AuditAction::KeyCapture;
            let details = format!("until {until:.0}");
            let audit = control.audit_entry(action, key.id.as_str(), Some(key.account), details);
            control.store.add_audit(&audit).await?;
            let started = control.captures.start(key.id.clone(), until, now);
            started.map_err(|error| ControlError::InUse(error.to_string()))?;
            Ok(until)
        })
        .await
    }

    /// Returns the captured messages of a request.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] without the permission and for a request of an account with a greater role than the
    /// caller's, [`ControlError::NotFound`] if this gateway has none.
    pub async fn captured_messages(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
    ) -> Result<Vec<WireMessage>, ControlError> {
        caller.require(Permission::CaptureRequests)?;
        let found = id.parse().ok().map(RequestId);
        let found = found.and_then(|id| self.captures.find(id, self.clock.now()));
        let Some(request) = found else {
            return Err(ControlError::NotFound(
                "this gateway has no captured messages of this request: start with `ctl request capture`; they are \
                 kept for an hour"
                    .to_owned(),
            ));
        };
        if let Some(owner) = self.directory.find_account(request.account()) {
            caller.require_on(&owner, Permission::CaptureRequests)?;
        }
        let (id, account) = (request.id().0.to_string(), request.account());
        self.write(Some(caller), move |control| async move {
            let audit = control.audit_entry(AuditAction::RequestWire, id, Some(account), "");
            control.store.add_audit(&audit).await?;
            Ok(())
        })
        .await?;
        // No other change waits for it.
        Ok(self.captures.messages_of(request).await)
    }
}
