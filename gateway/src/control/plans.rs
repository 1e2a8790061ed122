//! Plans: what accounts are entitled to.

use std::sync::Arc;

use super::change::Again;
use super::{Caller, Control, ControlError, MAX_BALANCE};
use crate::directory::Catalogue;
use domain::Invalid;
use domain::audit::AuditAction;
use domain::difference;
use domain::id::PlanName;
use domain::limit::Limits;
use domain::money::Nanos;
use domain::plan::Plan;

/// The highest limit: more than any machine serves, and within every store's integers.
const HIGHEST_LIMIT: u64 = 1_000_000_000_000_000;

/// A plan as an operator wishes it.
#[derive(Clone, Debug)]
pub struct NewPlan {
    /// Its name.
    pub name: PlanName,
    /// What a new account on it is given once.
    pub trial_credit: Nanos,
    /// Limits over all keys of an account.
    pub limits: Limits,
    /// The models that it may use, by id or alias; empty means all.
    pub models: Vec<String>,
}

impl Control {
    /// Lists plans by name; members see their own.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller's plan is gone.
    pub fn list_plans(&self, caller: &Caller) -> Result<Vec<Arc<Plan>>, ControlError> {
        if caller.is_operator() {
            return Ok(self.directory.catalogue().plans.values().cloned().collect());
        }
        Ok(vec![self.plan_of(&caller.account)?])
    }

    /// Returns a plan by its name; members get their own.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or is not the caller's to see.
    pub fn get_plan(&self, caller: &Caller, name: &str) -> Result<Arc<Plan>, ControlError> {
        let plan = self.directory.catalogue().plans.get(name).cloned();
        plan.filter(|plan| caller.is_operator() || plan.name == caller.account.plan)
            .ok_or_else(|| ControlError::missing("plan", name))
    }

    /// Makes a plan, or replaces the one of that name.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Invalid`] if it breaks a rule.
    pub async fn put_plan(
        self: &Arc<Self>,
        caller: &Caller,
        wish: NewPlan,
    ) -> Result<Arc<Plan>, ControlError> {
        caller.require_operator("change plans")?;
        wish.check()?;
        self.write(Some(caller), move |control| async move {
            let catalogue = control.directory.catalogue().clone();
            let plan = wish.into_plan(&catalogue)?;
            let details = plan_details(&plan, &catalogue);
            let entry = control.entry(AuditAction::PlanPut, plan.name.as_str(), None, details);
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
    /// Checks what it says by itself.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        check_limits(&self.limits)?;
        if self.trial_credit < Nanos::ZERO || self.trial_credit > MAX_BALANCE {
            let message = format!("`trial_credit_usd` must be from 0 to {MAX_BALANCE}");
            return Err(Invalid::new("trial_credit_usd", message));
        }
        Ok(())
    }

    /// Turns ids and aliases into ids of models in `catalogue`.
    pub(super) fn into_plan(self, catalogue: &Catalogue) -> Result<Plan, Invalid> {
        let mut models = Vec::with_capacity(self.models.len());
        for name in &self.models {
            let missing =
                || Invalid::new("models", ControlError::missing("model", name).to_string());
            let model = catalogue.find_model(name).ok_or_else(missing)?;
            if !models.contains(&model.id) {
                models.push(model.id.clone());
            }
        }
        let Self { name, trial_credit, limits, models: _ } = self;
        Ok(Plan { name, trial_credit, limits, models })
    }
}

/// Says what becomes of a plan that `catalogue` may have already.
pub(super) fn plan_details(plan: &Plan, catalogue: &Catalogue) -> String {
    match catalogue.plans.get(&plan.name) {
        Some(before) => difference::between(&**before, plan),
        None => difference::all_of(plan),
    }
}

/// Checks limits that are set whole. Zero would lock everybody out, and elsewhere means "no limit":
/// whoever sends it is asked to say which.
pub(super) fn check_limits(limits: &Limits) -> Result<(), Invalid> {
    for (field, limit) in [
        ("limits.rpm", limits.rpm),
        ("limits.tpm", limits.tpm),
        ("limits.concurrency", limits.concurrency),
        ("limits.monthly_tokens", limits.monthly_tokens),
    ] {
        if limit.is_some_and(|limit| !(1..=HIGHEST_LIMIT).contains(&limit)) {
            let message =
                format!("`{field}` must be from 1 to {HIGHEST_LIMIT}; leave it out for no limit");
            return Err(Invalid::new(field, message));
        }
    }
    Ok(())
}
