//! A stream of periodic traffic snapshots.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TrafficHistory;
use super::others::OtherTraffic;
use crate::control::access::Permission;
use crate::control::{Caller, Control, ControlError};
use crate::ledger::TotalBalance;
use domain::id::AccountId;

/// The minimum time between two snapshots.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

/// The traffic at one point in time, of all gateways that share the database.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficSnapshot {
    /// The time of the snapshot.
    pub at: Timestamp,
    /// The number of requests in flight.
    pub in_flight: u64,
    /// The statistics of ended requests.
    pub history: TrafficHistory,
    /// The state of this gateway's ledger; `None` in the traffic of an account.
    pub ledger: Option<LedgerState>,
}

/// The state of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerState {
    /// The balances of all accounts.
    pub balances: TotalBalance,
    /// Whether requests are refused, because they could not be recorded.
    pub is_stopped: bool,
    /// The number of records that the store does not have yet.
    pub waiting_records: u64,
    /// When the request of the oldest of these ended.
    pub oldest_waiting: Option<Timestamp>,
}

impl Control {
    /// Streams traffic snapshots: one now, and one `interval` after the previous one was taken,
    /// until the stream is dropped or `stop` is cancelled; an error is the last item. `account` is a name or id; empty means
    /// the caller's account, and `*` the whole gateway.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller may not see the account,
    /// [`ControlError::Forbidden`] for `*` by a member.
    pub fn watch_traffic(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        interval: Duration,
        stop: CancellationToken,
    ) -> Result<
        impl Stream<Item = Result<TrafficSnapshot, ControlError>> + Send + use<>,
        ControlError,
    > {
        let scope = self.scope(caller, account)?;
        let interval = interval.max(MIN_INTERVAL);
        let others = self.traffic_reports.clone().map(|reports| OtherTraffic::new(reports, scope));
        let start = Some((self.clone(), caller.clone(), stop, others, None::<Instant>));
        Ok(stream::unfold(start, move |state| async move {
            let (control, caller, stop, mut others, last) = state?;
            if let Some(last) = last {
                stop.run_until_cancelled(tokio::time::sleep_until(last + interval)).await?;
            }
            if let Err(error) = control.refuse_if_ended(&caller).await {
                return Some((Err(error), None));
            }
            if let Some(others) = &mut others {
                others.refresh(control.clock.now()).await;
            }
            let snapshot = control.traffic(scope, others.as_ref());
            Some((Ok(snapshot), Some((control, caller, stop, others, Some(Instant::now())))))
        }))
    }

    /// Resolves and authorizes `account`; `None` means the whole gateway.
    fn scope(&self, caller: &Caller, account: &str) -> Result<Option<AccountId>, ControlError> {
        match account {
            "" => Ok(Some(caller.account.id)),
            "*" => {
                caller.require(Permission::ReadAll)?;
                Ok(None)
            }
            account => Ok(Some(self.visible_account(caller, account)?.id)),
        }
    }

    fn traffic(&self, scope: Option<AccountId>, others: Option<&OtherTraffic>) -> TrafficSnapshot {
        let (at, now) = (self.clock.now(), self.clock.monotonic());
        let in_flight = self.in_flight_cache.get(&self.ledger, now);
        let mut in_flight = match scope {
            None => in_flight.total,
            Some(id) => in_flight.accounts.get(&id).copied().unwrap_or_default(),
        };
        let mut figures = self.traffic.figures(scope, now);
        if let Some(others) = others {
            in_flight += others.add_to(&mut figures, at);
        }
        let ledger = scope.is_none().then(|| self.ledger_state());
        TrafficSnapshot { at, in_flight, history: figures.into_history(), ledger }
    }

    fn ledger_state(&self) -> LedgerState {
        LedgerState {
            balances: self.ledger.total_balance(),
            is_stopped: self.ledger.write_failure().is_some(),
            waiting_records: self.ledger.waiting_records(),
            oldest_waiting: self.ledger.oldest_waiting(),
        }
    }
}
