//! Serialized changes of the gateway's state, with audit entries and idempotent replay.
//!
//! If other gateways use the database, a change that is not based on all of theirs fails in the
//! store ([`StoreError::Stale`]); it is made again once these were applied.

use std::ops::Deref;
use std::sync::Arc;

use super::access::refuse_suspended;
use super::{Caller, Control, ControlError};
use crate::offload::resume_panic;
use domain::ValidationError;
use domain::audit::{AuditAction, AuditEntry};
use domain::id::AccountId;
use domain::idempotency::{AdminCall, CompletedCall};
use domain::source::CallAddress;
use store::StoreError;

const MAX_KEY_BYTES: usize = 255;
/// The number of times that a change is attempted. Each failure means that another gateway made one.
const MAX_ATTEMPTS: u32 = 32;

/// The context of a running change; dereferences to [`Control`].
pub(super) struct ChangeContext {
    control: Arc<Control>,
    actor: Option<AccountId>,
    address: Option<CallAddress>,
    call: Option<AdminCall>,
}

/// Handles the outcome of a change that an earlier call completed.
pub(super) trait ReplayExt<T> {
    /// Replaces [`ControlError::Repeated`] by the result of `replay`.
    fn or_replay(
        self,
        replay: impl FnOnce(CompletedCall) -> Result<T, ControlError>,
    ) -> Result<T, ControlError>;
}

impl ChangeContext {
    /// Builds the audit entry of the change. Without an authenticated caller, the actor is
    /// `account`.
    pub(super) fn audit_entry(
        &self,
        action: AuditAction,
        object: impl Into<String>,
        account: Option<AccountId>,
        details: impl Into<String>,
    ) -> AuditEntry {
        AuditEntry {
            at: self.clock.now(),
            actor: self.actor.or(account),
            address: self.address,
            action,
            object: object.into(),
            account,
            details: details.into(),
            call: self.call.clone(),
        }
    }
}

impl Deref for ChangeContext {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Control {
    /// Runs `change` after all earlier changes have finished. A `caller` of `None` is
    /// unauthenticated. `change` runs again if another gateway made a change at the same time; it
    /// must have no effect before it writes to the store.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] if the caller was suspended or lost its role in the meantime,
    /// [`ControlError::Repeated`] if the call was completed before under its idempotency key,
    /// [`ControlError::Busy`] if other gateways make too many changes, and the errors of `change`.
    ///
    /// # Cancel safety
    /// The change runs in a task and completes even if the caller is dropped. Otherwise a
    /// cancellation between the write to the store and the update in memory would leave the two
    /// different.
    pub(super) async fn write<T, W>(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        change: impl FnOnce(ChangeContext) -> W + Clone + Send + 'static,
    ) -> Result<T, ControlError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, ControlError>> + Send + 'static,
    {
        let control = self.clone();
        let caller = caller.cloned();
        let task = self.tasks.spawn(async move {
            let _write_guard = control.write_lock.lock().await;
            for _ in 0..MAX_ATTEMPTS {
                let context = control.clone().change_context(caller.as_ref()).await?;
                match change.clone()(context).await {
                    Err(ControlError::Store(StoreError::Stale)) => {
                        control.apply_unapplied_changes().await?;
                    }
                    outcome => return outcome,
                }
            }
            let message = "other gateways make changes at the same time; try again";
            Err(ControlError::Busy(message.into()))
        });
        task.await.unwrap_or_else(|error| {
            resume_panic(error);
            Err(ControlError::Busy("the gateway is shutting down; try again".into()))
        })
    }

    /// Returns the context of a change by `caller`, if it may make one.
    async fn change_context(
        self: Arc<Self>,
        caller: Option<&Caller>,
    ) -> Result<ChangeContext, ControlError> {
        let Some(caller) = caller else {
            return Ok(ChangeContext { control: self, actor: None, address: None, call: None });
        };
        if let Some(account) = self.directory.find_account(caller.account.id) {
            refuse_suspended(&account)?;
        }
        self.refuse_if_demoted(caller)?;
        if let Some(done) = self.find_completed_call(caller).await? {
            return Err(ControlError::Repeated(done));
        }
        let (actor, call) = (Some(caller.id()), caller.call.clone());
        Ok(ChangeContext { control: self, actor, address: Some(caller.address), call })
    }

    /// Attaches an idempotency key to `caller`. `message` is the encoded request; its digest
    /// detects a key that is reused for another request.
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
            return Err(ValidationError::new("idempotency-key", message).into());
        }
        let digest = self.credentials.sealer().digest(message);
        let call = Some(AdminCall { method, key: key.to_owned(), digest });
        Ok(Caller { call, ..caller })
    }

    /// Finds the earlier call with the idempotency key of `caller`, if it completed.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] if the key was used for another request.
    pub(super) async fn find_completed_call(
        &self,
        caller: &Caller,
    ) -> Result<Option<CompletedCall>, ControlError> {
        let Some(call) = &caller.call else { return Ok(None) };
        let done = self.store.find_call(caller.id(), call).await?;
        if done.as_ref().is_some_and(|done| done.digest != call.digest) {
            let message = "the idempotency key belongs to another call: it asked for something else, or was made \
                before the key of stored secrets was replaced (`ctl seal rotate`), so that it cannot be compared; see \
                what it did with `ctl audit list`, and use a new key";
            return Err(ValidationError::new("idempotency-key", message).into());
        }
        Ok(done)
    }
}

// === impl ReplayExt ===

impl<T> ReplayExt<T> for Result<T, ControlError> {
    fn or_replay(
        self,
        replay: impl FnOnce(CompletedCall) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        match self {
            Err(ControlError::Repeated(done)) => replay(done),
            outcome => outcome,
        }
    }
}
