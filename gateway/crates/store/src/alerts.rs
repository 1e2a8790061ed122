//! Which conditions operators were notified of, so that each is reported once: by one of the gateways, and not again
//! after a restart.

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;
use super::codec::At;
use super::objects::ReadRow;
use domain::alert::{Alert, AlertChanges, AlertId, AlertKind, AlertRules};

/// The maximum number of conditions of each kind in an [`AlertChanges`]; the rest is found by the next call.
pub(crate) const MAX_FOUND: i64 = 100;

/// The order of new conditions: the first of each account, then the second ones, so that an account with many does not
/// keep those of others from being found.
pub(crate) const FAIR_ORDER: &str =
    "ORDER BY row_number() OVER (PARTITION BY account ORDER BY subject)";

/// The name of the row that says that conditions have been recorded before.
pub(crate) const RECORDED_SINCE: &str = "alerts_recorded_since";

/// The kinds of conditions of accounts and keys, which the database knows.
pub(crate) const STORED_KINDS: [AlertKind; 3] =
    [AlertKind::BalanceLow, AlertKind::SpendCapNear, AlertKind::KeyExpiring];

/// The recorded conditions.
#[async_trait]
pub trait Alerts: Send + Sync {
    /// Records the conditions of accounts and keys that hold, unless this was done before. They are older than the
    /// notifications, and are never reported.
    async fn record_old_alerts(&self, rules: AlertRules) -> Result<(), StoreError>;
    /// Returns the conditions of accounts and keys that have begun or ended and whose change is not recorded, and those
    /// of upstreams that were removed as ended. Returns none while another gateway looks for them.
    async fn find_alert_changes(&self, rules: AlertRules) -> Result<AlertChanges, StoreError>;
    /// Records that a condition holds. Returns whether no gateway has recorded it. A condition of an upstream is recorded for
    /// each gateway; other gateways count while they are alive.
    async fn raise_alert(&self, alert: &AlertId, at: Timestamp) -> Result<bool, StoreError>;
    /// Records that a condition does not hold any more. Returns whether it was recorded and no other gateway has it.
    async fn clear_alert(&self, alert: &AlertId) -> Result<bool, StoreError>;
}

/// Reads a condition from the columns `account`, `key`, `subject`, `amount` and `bound`.
pub(crate) fn alert<R: ReadRow>(kind: AlertKind, row: &R) -> Result<Option<Alert>, R::Error> {
    let account = row.named("account")?;
    Ok(Some(match kind {
        AlertKind::BalanceLow => {
            Alert::BalanceLow { account, balance: row.named("amount")?, bound: row.named("bound")? }
        }
        AlertKind::SpendCapNear => Alert::SpendCapNear {
            account,
            key: row.named("key")?,
            origin: row.named("subject")?,
            spent: row.named("amount")?,
            cap: row.named("bound")?,
        },
        AlertKind::KeyExpiring => Alert::KeyExpiring {
            account,
            key: row.named("key")?,
            expires_at: row.named::<At>("amount")?.0,
        },
        AlertKind::UpstreamDown => return Ok(None),
    }))
}
