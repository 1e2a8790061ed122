//! One change of the gateway's state: who makes it, and that it is the only one under way.

use std::ops::Deref;
use std::sync::Arc;

use super::access::refuse_suspended;
use super::{Caller, Control, ControlError};
use crate::domain::audit::{AuditAction, AuditEntry};
use crate::domain::id::AccountId;

/// A change under way. It gives way to [`Control`] for what a change looks at and writes.
pub(super) struct Change {
    control: Arc<Control>,
    actor: Option<AccountId>,
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
    /// suspended by then; `None` is somebody who is not signed in.
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
        let actor = caller.map(|caller| caller.account.id);
        let task = self.tasks.spawn(async move {
            let _one_at_a_time = control.writing.lock().await;
            if let Some(account) = actor.and_then(|actor| control.directory.find_account(actor)) {
                refuse_suspended(&account)?;
            }
            change(Change { control: control.clone(), actor }).await
        });
        task.await.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ControlError::Busy("the gateway is shutting down; try again".into())),
        })
    }
}
