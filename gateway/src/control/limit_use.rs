//! Current usage of the limits that apply to an account.

use jiff::Timestamp;

use super::access::allows;
use super::{Caller, Control, ControlError};
use crate::limits::{LimitOwner, LimitUse, Moment};
use domain::key::Key;
use domain::limit::{LimitKind, LimitScope};
use domain::money::Nanos;

/// A limit with its current usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// The kind of object that the limit belongs to.
    pub scope: LimitScope,
    /// The name of the plan, the id of the model, or the public id of the key.
    pub subject: String,
    /// The counted quantity, which gives `limit` and `used` their unit.
    pub metric: LimitMetric,
    /// The limit's value.
    pub limit: u64,
    /// The current usage, including reservations.
    pub used: u64,
    /// Whether excess is only recorded, not refused.
    pub observed: bool,
    /// When the limit is fully available again without further use; `None` if it does not reset
    /// with time.
    pub resets_at: Option<Timestamp>,
}

/// The quantity that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitMetric {
    /// Requests, tokens or concurrent requests.
    Use(LimitKind),
    /// The total spend of a key, in nanodollars.
    Spending,
}

impl Control {
    /// Lists the limits of an account: those of its plan, of its usable keys, and of the models
    /// that the plan allows. `account` is a name or id; empty means the caller's account.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller may not see the account.
    pub async fn list_limit_use(
        &self,
        caller: &Caller,
        account: &str,
    ) -> Result<Vec<LimitView>, ControlError> {
        let account = match account {
            "" => caller.account.clone(),
            account => self.visible_account(caller, account)?,
        };
        let plan = self.plan_of(&account)?;
        let now = Moment { monotonic: self.clock.monotonic(), wall: self.clock.now() };
        let in_use = |subject: &str, limited, limits| {
            let in_use = self.limiter.limits_in_use(limited, limits, now).into_iter();
            in_use.map(|it| LimitView::new(subject, it)).collect::<Vec<_>>()
        };
        let mut views = in_use(plan.name.as_str(), LimitOwner::Plan(account.id), &plan.limits);
        let is_usable = |key: &Key| {
            key.revoked_at.is_none()
                && key.expires_at.is_none_or(|expires_at| expires_at > now.wall)
        };
        let keys = self.store.keys(Some(account.id)).await?;
        for (key, _) in keys.iter().filter(|(key, _)| is_usable(key)) {
            views.extend(in_use(key.id.as_str(), LimitOwner::Key(&key.origin), &key.limits));
            views.extend(self.spending(key));
        }
        for model in self.directory.catalogue().models.values() {
            if allows(&plan, model) {
                views.extend(in_use(
                    model.id.as_str(),
                    LimitOwner::Model(&model.id),
                    &model.limits,
                ));
            }
        }
        Ok(views)
    }

    /// Returns the usage of a key's spending cap; `None` if the key has no cap.
    fn spending(&self, key: &Key) -> Option<LimitView> {
        let nanos = |amount: Nanos| u64::try_from(amount.0).unwrap_or_default();
        Some(LimitView {
            scope: LimitScope::Key,
            subject: key.id.to_string(),
            metric: LimitMetric::Spending,
            limit: nanos(key.spend_cap?),
            used: nanos(self.ledger.spend_cap_in_use(key)?),
            observed: false,
            resets_at: None,
        })
    }
}

impl LimitView {
    fn new(subject: &str, in_use: LimitUse) -> Self {
        let LimitUse { scope, kind, limit, used, observed, resets_at } = in_use;
        let (subject, metric) = (subject.to_owned(), LimitMetric::Use(kind));
        Self { scope, subject, metric, limit, used, observed, resets_at }
    }
}
