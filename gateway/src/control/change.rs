//! One change of the gateway's state: who makes it, and that it is the only one under way.

use std::ops::Deref;
use std::sync::Arc;

use super::access::refuse_suspended;
use super::{Caller, Control, ControlError};
use domain::Invalid;
use domain::audit::{AuditAction, AuditEntry};
use domain::id::AccountId;
use domain::idempotency::{AdminCall, DoneCall};

const MAX_KEY_BYTES: usize = 255;

/// A change under way. It gives way to [`Control`] for what a change looks at and writes.
pub(super) struct Change {
    control: Arc<Control>,
    actor: Option<AccountId>,
    call: Option<AdminCall>,
}

/// What a change comes to that may have been made before.
pub(super) trait Again<T> {
    /// Gives what `again` does if the same call made the change before.
    fn or_replay(
        self,
        again: impl FnOnce(DoneCall) -> Result<T, ControlError>,
    ) -> Result<T, ControlError>;
}

impl Change {
    /// Makes the entry of the audit log that goes with the change. Who was not signed in when it was
    /// made is the account that it is about.
    pub(super) fn entry(
        &self,
        action: AuditAction,
        object: impl Into<String>,
        account: Option<AccountId>,
        details: impl Into<String>,
    ) -> AuditEntry {
        AuditEntry {
            at: self.clock.now(),
            actor: self.actor.or(account),
            action,
            object: object.into(),
            account,
            details: details.into(),
            call: self.call.clone(),
        }
    }
}

impl Deref for Change {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Control {
    /// Runs one change after the other, each to its end: a caller that goes away between the write
    /// to the store and the change in memory must not leave the two apart. Refuses callers that are
    /// suspended by then, and says [`ControlError::Repeated`] of a call that was made before; `None` is
    /// somebody who is not signed in.
    pub(super) async fn write<T, W>(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        change: impl FnOnce(Change) -> W + Send + 'static,
    ) -> Result<T, ControlError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, ControlError>> + Send + 'static,
    {
        let control = self.clone();
        let caller = caller.cloned();
        let task = self.tasks.spawn(async move {
            let _one_at_a_time = control.writing.lock().await;
            let Some(caller) = caller else {
                return change(Change { control: control.clone(), actor: None, call: None }).await;
            };
            if let Some(account) = control.directory.find_account(caller.account.id) {
                refuse_suspended(&account)?;
            }
            if let Some(done) = control.find_done(&caller).await? {
                return Err(ControlError::Repeated(done));
            }
            let (actor, call) = (Some(caller.account.id), caller.call);
            change(Change { control: control.clone(), actor, call }).await
        });
        task.await.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ControlError::Busy("the gateway is shutting down; try again".into())),
        })
    }

    /// Gives `caller` a call that may be made again under `key`; `method` is its kind, and `message` what it
    /// asks for.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] if the key is empty or too long.
    pub fn with_idempotency_key(
        &self,
        caller: Caller,
        method: &'static str,
        key: &str,
        message: &[u8],
    ) -> Result<Caller, ControlError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            let message =
                format!("`idempotency-key` must have 1 to {MAX_KEY_BYTES} characters of ASCII");
            return Err(Invalid::new("idempotency-key", message).into());
        }
        let digest = self.credentials.digest(message);
        let call = Some(AdminCall { method, key: key.to_owned(), digest });
        Ok(Caller { call, ..caller })
    }

    /// Finds out whether this call was made before.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] if its key belongs to another one.
    pub(super) async fn find_done(
        &self,
        caller: &Caller,
    ) -> Result<Option<DoneCall>, ControlError> {
        let Some(call) = &caller.call else { return Ok(None) };
        let done = self.store.find_call(caller.account.id, call).await?;
        if done.as_ref().is_some_and(|done| done.digest != call.digest) {
            let message = "the idempotency key belongs to another call, which asked for something \
                else; use a new key";
            return Err(Invalid::new("idempotency-key", message).into());
        }
        Ok(done)
    }
}

// === impl Again ===

impl<T> Again<T> for Result<T, ControlError> {
    fn or_replay(
        self,
        again: impl FnOnce(DoneCall) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        match self {
            Err(ControlError::Repeated(done)) => again(done),
            outcome => outcome,
        }
    }
}
