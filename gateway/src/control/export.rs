//! Export of the request log and of stored responses as streams.
//!
//! Driven by the caller: each page is read on demand in a separate read transaction, so that a slow
//! reader does not block the store.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{Stream, stream};
use tokio_util::sync::CancellationToken;

use super::access::Permission;
use super::usage::{RecordView, RequestQuery};
use super::{Caller, Control, ControlError};
use domain::audit::AuditAction;
use domain::response::StoredResponse;
use store::{Cursor, RequestFilter};

/// Rows per read.
const MAX_PAGE_ROWS: usize = 500;
/// Responses per read; one can have some megabytes.
const MAX_PAGE_RESPONSES: u32 = 8;

struct Export {
    control: Arc<Control>,
    caller: Caller,
    filter: RequestFilter,
    after: Cursor,
    end: Cursor,
    stop: CancellationToken,
}

impl Control {
    /// Streams all matching records of requests that have ended by now, oldest first.
    ///
    /// An error is the last item. A cancelled `stop` is also reported as an error, so that a
    /// truncated export cannot be mistaken for a complete one.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the query names an account that the caller may not see.
    pub async fn export_requests(
        self: &Arc<Self>,
        caller: &Caller,
        query: RequestQuery,
        stop: CancellationToken,
    ) -> Result<
        impl Stream<Item = Result<Vec<RecordView>, ControlError>> + Send + use<>,
        ControlError,
    > {
        let filter = self.filter(caller, query)?;
        self.ledger.wait_until_stored().await;
        let end = self.store.newest().await?;
        let (control, caller) = (self.clone(), caller.clone());
        let export = Export { control, caller, filter, after: Cursor::default(), end, stop };
        Ok(stream::unfold(Some(export), |export| async {
            let mut export = export?;
            match export.next().await {
                Ok(records) if records.is_empty() => None,
                Ok(records) => Some((Ok(records), Some(export))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}

impl Control {
    /// Streams the stored responses of an account (a name or id), oldest first, without the ids of
    /// their items. An error is the last item, as in [`Self::export_requests`]. Exports of an account that is not the
    /// caller's are recorded in the audit log.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the account does not exist or the caller may not see it,
    /// [`ControlError::Forbidden`] for people that are not admins, because it has what the others asked and were answered, and
    /// for an account with a greater role than the caller's;
    /// [`ControlError::Store`] if the audit log cannot be written.
    pub async fn export_responses(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        stop: CancellationToken,
    ) -> Result<impl Stream<Item = Result<StoredResponse, ControlError>> + Send + use<>, ControlError>
    {
        let found = self.visible_account(caller, account)?;
        let (account, name) = (found.id, found.name.clone());
        caller.require_admin("export stored responses")?;
        if account != caller.account.id {
            caller.require_on(&found, Permission::ReadAll)?;
            self.write(Some(caller), move |control| async move {
                let action = AuditAction::ResponsesExport;
                let audit = control.audit_entry(action, name, Some(account), "");
                Ok(control.store.add_audit(&audit).await?)
            })
            .await?;
        }
        let (control, caller) = (self.clone(), caller.clone());
        let start = (None, VecDeque::new());
        Ok(stream::try_unfold(start, move |(mut after, mut page)| {
            let (control, caller, stop) = (control.clone(), caller.clone(), stop.clone());
            async move {
                if page.is_empty() {
                    if stop.is_cancelled() {
                        let message = "the gateway is shutting down; try again";
                        return Err(ControlError::Busy(message.into()));
                    }
                    control.refuse_if_ended(&caller).await?;
                    let read = control.store.responses_after(account, after, MAX_PAGE_RESPONSES);
                    page = VecDeque::from(read.await?);
                    after = page.back().map(|last| last.id);
                }
                Ok(page.pop_front().map(|response| (response, (after, page))))
            }
        }))
    }
}

impl Export {
    /// Returns the next page; empty at the end.
    async fn next(&mut self) -> Result<Vec<RecordView>, ControlError> {
        if self.stop.is_cancelled() {
            return Err(ControlError::Busy("the gateway is shutting down; try again".into()));
        }
        self.control.refuse_if_ended(&self.caller).await?;
        if self.after >= self.end {
            return Ok(Vec::new());
        }
        let mut rows =
            self.control.store.requests_after(&self.filter, self.after, MAX_PAGE_ROWS).await?;
        self.after = match rows.last() {
            Some((last, _)) if rows.len() == MAX_PAGE_ROWS => *last,
            _ => self.end,
        };
        rows.retain(|(cursor, _)| *cursor <= self.end);
        Ok(self.control.record_views(rows))
    }
}
