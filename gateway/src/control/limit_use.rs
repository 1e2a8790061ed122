//! How much of its limits an account uses now.

use super::access::allows;
use super::{Caller, Control, ControlError};
use crate::domain::key::Key;
use crate::limits::{LimitUse, Limited, Moment};

/// A limit, and the name of the plan, the model or the key that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// The name, or the public id.
    pub subject: String,
    /// The limit and its use.
    pub in_use: LimitUse,
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
        let mut views = Vec::new();
        let mut add = |subject: &str, limited, limits| {
            let in_use = self.limiter.limits_in_use(limited, limits, now).into_iter();
            views.extend(in_use.map(|in_use| LimitView { subject: subject.to_owned(), in_use }));
        };
        add(plan.name.as_str(), Limited::Plan(account.id), &plan.limits);
        let holds = |key: &Key| {
            key.revoked_at.is_none()
                && key.expires_at.is_none_or(|expires_at| expires_at > now.wall)
        };
        let keys = self.store.keys(Some(account.id)).await?;
        for (key, _) in keys.iter().filter(|(key, _)| holds(key)) {
            add(key.id.as_str(), Limited::Key(&key.id), &key.limits);
        }
        for model in self.directory.catalogue().models.values() {
            if allows(&plan, model) {
                add(model.id.as_str(), Limited::Model(&model.id), &model.limits);
            }
        }
        Ok(views)
    }
}
