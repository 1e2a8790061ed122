//! Plans: trial credit, limits and allowed models of accounts.

use std::sync::Arc;

use super::access::Permission;
use super::change::ReplayExt;
use super::{Caller, Control, ControlError, MAX_BALANCE};
use crate::directory::Catalogue;
use domain::ValidationError;
use domain::audit::AuditAction;
use domain::audit_diff;
use domain::id::PlanName;
use domain::limit::Limits;
use domain::money::Nanos;
use domain::plan::{DEFAULT_MAX_KEYS, Plan};

/// The highest value of a limit: beyond any real load, and within the integer range of every store.
const MAX_LIMIT: u64 = 1_000_000_000_000_000;
/// The highest number of keys that a plan can allow: the keys of an account are listed in one message.
const MAX_KEYS: u32 = 100_000;

/// A request to create or replace a plan.
#[derive(Clone, Debug)]
pub struct NewPlan {
    /// The plan's name.
    pub name: PlanName,
    /// The credit that a new account on the plan receives once.
    pub trial_credit: Nanos,
    /// Limits per account, over all of its keys.
    pub limits: Limits,
    /// The number of usable keys from which an account can make no more; `None` for the default.
    pub max_keys: Option<u32>,
    /// The allowed models, by id or alias; empty means all.
    pub models: Vec<String>,
}

impl Control {
    /// Lists plans by name; members see only their own.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller's plan no longer exists.
    pub fn list_plans(&self, caller: &Caller) -> Result<Vec<Arc<Plan>>, ControlError> {
        if caller.sees_all() {
            return Ok(self.directory.catalogue().plans.values().cloned().collect());
        }
        Ok(vec![self.plan_of(&caller.account)?])
    }

    /// Returns a plan by its name; members see only their own.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or the caller may not see it.
    pub fn get_plan(&self, caller: &Caller, name: &str) -> Result<Arc<Plan>, ControlError> {
        let plan = self.directory.catalogue().plans.get(name).cloned();
        plan.filter(|plan| caller.sees_all() || plan.name == caller.account.plan)
            .ok_or_else(|| ControlError::missing("plan", name))
    }

    /// Creates a plan, or replaces the plan of that name.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Invalid`] if a field is invalid.
    pub async fn put_plan(
        self: &Arc<Self>,
        caller: &Caller,
        request: NewPlan,
    ) -> Result<Arc<Plan>, ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        request.check()?;
        self.write(Some(caller), move |control| async move {
            let catalogue = control.directory.catalogue().clone();
            let plan = request.into_plan(&catalogue)?;
            let details = plan_details(&plan, &catalogue);
            let entry =
                control.audit_entry(AuditAction::PlanPut, plan.name.as_str(), None, details);
            control.store.put_plan(&plan, &entry).await?;
            let plan = Arc::new(plan);
            control.directory.change_catalogue(|catalogue| {
                catalogue.plans.insert(plan.name.clone(), plan.clone());
            });
            Ok(plan)
        })
        .await
        .or_replay(|done| {
            let plan = self.directory.catalogue().plans.get(done.object.as_str()).cloned();
            plan.ok_or_else(|| ControlError::missing("plan", &done.object))
        })
    }
}

impl NewPlan {
    /// Validates the fields that do not depend on the catalogue.
    pub(super) fn check(&self) -> Result<(), ValidationError> {
        check_limits(&self.limits)?;
        if self.trial_credit < Nanos::ZERO || self.trial_credit > MAX_BALANCE {
            let message = format!("`trial_credit_usd` must be from 0 to {MAX_BALANCE}");
            return Err(ValidationError::new("trial_credit_usd", message));
        }
        if self.max_keys.is_some_and(|max| !(1..=MAX_KEYS).contains(&max)) {
            let message = format!(
                "`max_keys` must be from 1 to {MAX_KEYS}; leave it out for {DEFAULT_MAX_KEYS}"
            );
            return Err(ValidationError::new("max_keys", message));
        }
        Ok(())
    }

    /// Builds the plan, resolving model ids and aliases in `catalogue`.
    pub(super) fn into_plan(self, catalogue: &Catalogue) -> Result<Plan, ValidationError> {
        let mut models = Vec::with_capacity(self.models.len());
        for name in &self.models {
            let missing =
                || ValidationError::new("models", ControlError::missing("model", name).to_string());
            let model = catalogue.find_model(name).ok_or_else(missing)?;
            if !models.contains(&model.id) {
                models.push(model.id.clone());
            }
        }
        let Self { name, trial_credit, limits, max_keys, models: _ } = self;
        let max_keys = max_keys.unwrap_or(DEFAULT_MAX_KEYS);
        Ok(Plan { name, trial_credit, limits, max_keys, models })
    }
}

/// Returns the audit details of setting `plan`: the difference from the plan in `catalogue`, if it
/// has one.
pub(super) fn plan_details(plan: &Plan, catalogue: &Catalogue) -> String {
    match catalogue.plans.get(&plan.name) {
        Some(before) => audit_diff::describe_changes(&**before, plan),
        None => audit_diff::describe(plan),
    }
}

/// Validates limits. Zero is refused as ambiguous: it would block all requests here, but means "no
/// limit" elsewhere.
pub(super) fn check_limits(limits: &Limits) -> Result<(), ValidationError> {
    for (field, limit) in [
        ("limits.rpm", limits.rpm),
        ("limits.tpm", limits.tpm),
        ("limits.concurrency", limits.concurrency),
        ("limits.monthly_tokens", limits.monthly_tokens),
    ] {
        if limit.is_some_and(|limit| !(1..=MAX_LIMIT).contains(&limit)) {
            let message =
                format!("`{field}` must be from 1 to {MAX_LIMIT}; leave it out for no limit");
            return Err(ValidationError::new(field, message));
        }
    }
    Ok(())
}
