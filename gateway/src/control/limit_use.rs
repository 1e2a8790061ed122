//! How much of its limits an account uses now.

use jiff::Timestamp;

use super::access::allows;
use super::{Caller, Control, ControlError};
use crate::limits::{LimitOwner, LimitUse, Moment};
use domain::key::Key;
use domain::limit::{LimitKind, LimitScope};
use domain::money::Nanos;

/// A limit and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// What it belongs to.
    pub scope: LimitScope,
    /// The name of the plan, the id of the model, or the public id of the key.
    pub subject: String,
    /// What it counts.
    pub metric: LimitMetric,
    /// The limit.
    pub limit: u64,
    /// How much of it is used, reservations included.
    pub used: u64,
    /// Whether it is only observed.
    pub observed: bool,
    /// When all of it is there again, if nothing more is used; `None` if that is not a matter of time.
    pub resets_at: Option<Timestamp>,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitMetric {
    /// Requests or tokens.
    Use(LimitKind),
    /// Nanodollars that a key has spent in all.
    Spending,
}

impl Control {
    /// Lists the limits that hold for an account by its name or id, for the caller's own if the text is
    /// empty: the plan's, those of keys that may be used, and those of models that the plan allows.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the account is not the caller's to see.
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
        let holds = |key: &Key| {
            key.revoked_at.is_none()
                && key.expires_at.is_none_or(|expires_at| expires_at > now.wall)
        };
        let keys = self.store.keys(Some(account.id)).await?;
        for (key, _) in keys.iter().filter(|(key, _)| holds(key)) {
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

    /// How much of its spending cap a key has used; `None` if it has none.
    fn spending(&self, key: &Key) -> Option<LimitView> {
        let nanos = |amount: Nanos| u64::try_from(amount.0).unwrap_or_default();
        Some(LimitView {
            scope: LimitScope::Key,
            subject: key.id.to_string(),
            metric: LimitMetric::Spending,
            limit: nanos(key.spend_cap?),
            used: nanos(self.ledger.cap_in_use(key)?),
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
