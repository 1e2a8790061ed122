//! Current usage of the limits that apply to an account.

use jiff::Timestamp;

use super::access::allows;
use super::{Caller, Control, ControlError};
use crate::limits::{LimitOwner, LimitUse, Moment};
use domain::allocation::Pool;
use domain::key::Key;
use domain::limit::{LimitKind, LimitScope, Limits};
use domain::money::Nanos;
use domain::month::month_start;

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
        let owner = LimitOwner::Plan(account.id);
        let mut views = self.limits_of(plan.name.as_str(), owner, &plan.limits, now).await?;
        let is_usable = |key: &Key| {
            key.revoked_at.is_none()
                && key.expires_at.is_none_or(|expires_at| expires_at > now.wall)
        };
        let keys = self.store.keys(Some(account.id)).await?;
        for (key, _) in keys.iter().filter(|(key, _)| is_usable(key)) {
            let owner = LimitOwner::Key(&key.origin);
            views.extend(self.limits_of(key.id.as_str(), owner, &key.limits, now).await?);
            views.extend(self.spending(key).await?);
        }
        let catalogue = self.directory.catalogue().clone();
        for model in catalogue.models.values().filter(|model| allows(&plan, model)) {
            let owner = LimitOwner::Model(&model.id);
            views.extend(self.limits_of(model.id.as_str(), owner, &model.limits, now).await?);
        }
        Ok(views)
    }

    /// Returns the usage of the limits of one owner. If several gateways share them, a monthly quota counts the
    /// records of all, and the other limits count what the other gateways have taken as used.
    async fn limits_of(
        &self,
        subject: &str,
        owner: LimitOwner<'_>,
        limits: &Limits,
        now: Moment,
    ) -> Result<Vec<LimitView>, ControlError> {
        let mut in_use = self.limiter.limits_in_use(owner, limits, now);
        if let Some(allocations) = &self.allocations {
            let month = month_start(now.wall);
            for quota in in_use.iter_mut().filter(|it| it.kind == LimitKind::MonthlyTokens) {
                let pool = Pool::MonthlyTokens { subject: owner.subject(), month };
                let limit = i64::try_from(quota.limit).unwrap_or(i64::MAX);
                let unused = allocations.unused(&[(pool, Some(limit))]).await?;
                let used = limit.saturating_sub(unused.first().copied().unwrap_or_default());
                quota.used = u64::try_from(used).unwrap_or_default();
            }
        }
        Ok(in_use.into_iter().map(|it| LimitView::new(subject, it)).collect())
    }

    /// Returns the usage of a key's spending cap; `None` if the key has no cap.
    async fn spending(&self, key: &Key) -> Result<Option<LimitView>, ControlError> {
        let Some(cap) = key.spend_cap else { return Ok(None) };
        let used = match &self.allocations {
            None => self.ledger.spend_cap_in_use(key).unwrap_or_default(),
            Some(allocations) => {
                let pool = (Pool::SpendCap(key.origin.clone()), Some(cap.0));
                let unused = allocations.unused(&[pool]).await?.first().copied();
                cap + -Nanos(unused.unwrap_or_default())
            }
        };
        let nanos = |amount: Nanos| u64::try_from(amount.0).unwrap_or_default();
        Ok(Some(LimitView {
            scope: LimitScope::Key,
            subject: key.id.to_string(),
            metric: LimitMetric::Spending,
            limit: nanos(cap),
            used: nanos(used),
            observed: false,
            resets_at: None,
        }))
    }
}

impl LimitView {
    fn new(subject: &str, in_use: LimitUse) -> Self {
        let LimitUse { scope, kind, limit, used, observed, resets_at } = in_use;
        let (subject, metric) = (subject.to_owned(), LimitMetric::Use(kind));
        Self { scope, subject, metric, limit, used, observed, resets_at }
    }
}
