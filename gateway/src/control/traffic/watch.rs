//! Shows the traffic to whoever watches it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TrafficHistory;
use crate::control::{Caller, Control, ControlError};
use domain::id::AccountId;

/// The least time between two answers.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

/// The traffic at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficSnapshot {
    /// When.
    pub at: Timestamp,
    /// Requests under way.
    pub in_flight: u64,
    /// What has ended.
    pub history: TrafficHistory,
}

impl Control {
    /// Shows the traffic of an account by its name or id, of the caller's own for an empty text, or of
    /// the whole gateway for `*`: now, and `interval` after each answer was taken, until the reader goes
    /// or `stop` is cancelled.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the account is not the caller's to see,
    /// [`ControlError::Forbidden`] if a member asks for everything.
    pub fn watch_traffic(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        interval: Duration,
        stop: CancellationToken,
    ) -> Result<impl Stream<Item = TrafficSnapshot> + Send + use<>, ControlError> {
        let scope = self.scope(caller, account)?;
        let interval = interval.max(MIN_INTERVAL);
        let start = (self.clone(), stop, None::<Instant>);
        Ok(stream::unfold(start, move |(control, stop, last)| async move {
            if let Some(last) = last {
                stop.run_until_cancelled(tokio::time::sleep_until(last + interval)).await?;
            }
            Some((control.traffic(scope), (control, stop, Some(Instant::now()))))
        }))
    }

    /// Whose traffic is meant; `None` for all of it.
    fn scope(&self, caller: &Caller, account: &str) -> Result<Option<AccountId>, ControlError> {
        match account {
            "" => Ok(Some(caller.account.id)),
            "*" => {
                caller.require_operator("watch the whole gateway")?;
                Ok(None)
            }
            account => Ok(Some(self.visible_account(caller, account)?.id)),
        }
    }

    fn traffic(&self, scope: Option<AccountId>) -> TrafficSnapshot {
        let now = self.clock.monotonic();
        let under_way = self.last_count.get(&self.ledger, now);
        let in_flight = match scope {
            None => under_way.total,
            Some(id) => under_way.accounts.get(&id).copied().unwrap_or_default(),
        };
        TrafficSnapshot {
            at: self.clock.now(),
            in_flight,
            history: self.traffic.history(scope, now),
        }
    }
}
