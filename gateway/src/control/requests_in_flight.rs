//! Requests in flight: those that went upstream and have not ended.
//!
//! They are the open requests of the journal, so that requests do nothing for the list.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::access::Permission;
use super::change::ReplayExt;
use super::usage::RecordView;
use super::{Caller, Control, ControlError};
use crate::ledger::journal::JournaledRequest;
use domain::audit::AuditAction;
use domain::id::{AccountId, RequestId};

/// The most requests that are listed.
const MAX_LISTED: usize = 1_000;
/// How long a cancelled request may take to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which a cancelled request is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A request in flight.
#[derive(Clone, Debug)]
pub struct RequestInFlight {
    /// The record so far, and the name of its account.
    pub view: RecordView,
    /// The time since its arrival.
    pub age: Duration,
    /// The length of the text that was sent upstream, in bytes.
    pub input_bytes: u64,
    /// The length of the text received so far, in bytes; updated every two seconds, and each 2 KiB.
    pub output_bytes: u64,
}

/// Requests in flight.
#[derive(Clone, Debug)]
pub struct RequestsInFlight {
    /// The oldest ones, oldest first.
    pub requests: Vec<RequestInFlight>,
    /// The number of all of them.
    pub total: usize,
}

impl Control {
    /// Lists the requests in flight on this gateway. `account` is a name or id; empty means all accounts that the
    /// caller may see.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller may not see the account.
    pub fn requests_in_flight(
        &self,
        caller: &Caller,
        account: &str,
    ) -> Result<RequestsInFlight, ControlError> {
        let account = match account {
            "" => None,
            account => Some(self.visible_account(caller, account)?.id),
        };
        let matches =
            |id: AccountId| account.is_none_or(|account| account == id) && caller.can_see(id);
        // The journal, which requests wait for, is locked meanwhile: only what is listed is copied as a whole.
        let all = self.ledger.in_flight_requests(|JournaledRequest { record, .. }| {
            matches(record.account).then_some((record.started_at, record.id))
        });
        let mut all: Vec<(Timestamp, RequestId)> = all.into_iter().flatten().collect();
        all.sort_unstable();
        let listed: HashSet<RequestId> = all.iter().take(MAX_LISTED).map(|(_, id)| *id).collect();
        let open = self
            .ledger
            .in_flight_requests(|open| listed.contains(&open.record.id).then(|| open.clone()));
        let now = self.clock.now();
        let mut requests: Vec<_> =
            open.into_iter().flatten().map(|open| self.request_in_flight(open, now)).collect();
        requests.sort_by_key(|it| (it.view.record.started_at, it.view.record.id));
        Ok(RequestsInFlight { requests, total: all.len() })
    }

    /// Cancels a request in flight on this gateway, and waits until it has ended.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if there is none that the caller may see, [`ControlError::Forbidden`] if it belongs to
    /// an account that the caller may not act on, and [`ControlError::Busy`] if it has not ended after five seconds.
    pub async fn cancel_request(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
    ) -> Result<(), ControlError> {
        let missing = || {
            ControlError::NotFound(format!(
                "no request `{}` is in flight on this gateway; `ctl request in-flight` shows those that are",
                super::error::printable(id)
            ))
        };
        let id = RequestId(id.parse().map_err(|_| missing())?);
        let found = self.ledger.in_flight_requests(|JournaledRequest { record, .. }| {
            (record.id == id).then_some((record.account, record.key.clone()))
        });
        let (account, key) = found
            .into_iter()
            .flatten()
            .find(|(account, _)| caller.can_see(*account))
            .ok_or_else(missing)?;
        let (key, _) = self.visible_key(caller, &key).await?;
        self.require_on_key(caller, &key, Permission::CancelRequests)?;
        self.write(Some(caller), move |control| async move {
            let details = format!("key `{}`", key.id);
            let object = id.to_string();
            let audit =
                control.audit_entry(AuditAction::RequestCancel, object, Some(account), details);
            Ok(control.store.add_audit(&audit).await?)
        })
        .await
        .or_replay(|_| Ok(()))?;
        let (control, cancelling) = (self.clone(), self.cancellations.cancel(id));
        // It ends although the caller does not wait for it.
        let ended = self.tasks.spawn(async move {
            while control.ledger.is_under_way(id) {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
            drop(cancelling);
        });
        tokio::time::timeout(CANCEL_TIMEOUT, ended).await.map(|_| ()).map_err(|_| {
            ControlError::Busy(format!(
                "the request `{id}` is cancelled, and still in flight because its client does not take what was \
                 sent; it ends when the client does, or has taken nothing for `client_idle_seconds`"
            ))
        })
    }

    fn request_in_flight(&self, open: JournaledRequest, now: Timestamp) -> RequestInFlight {
        let JournaledRequest { record, input_bytes, output_bytes, .. } = open;
        let age = Duration::try_from(now.duration_since(record.started_at)).unwrap_or_default();
        RequestInFlight { view: self.record_view(record), age, input_bytes, output_bytes }
    }
}
