//! Plans: what accounts are entitled to.

use std::sync::Arc;

use super::{Caller, Control, ControlError, LARGEST_BALANCE};
use crate::domain::Invalid;
use crate::domain::audit::AuditAction;
use crate::domain::id::PlanName;
use crate::domain::limit::Limits;
use crate::domain::money::Nanos;
use crate::domain::plan::Plan;

/// The highest limit: more than any machine serves, and within every store's integers.
const HIGHEST_LIMIT: u64 = 1_000_000_000_000_000;

/// A plan as an operator wishes it.
#[derive(Clone, Debug)]
pub struct PlanWish {
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
        wish: PlanWish,
    ) -> Result<Arc<Plan>, ControlError> {
        caller.require_operator("change plans")?;
        check_limits(&wish.limits)?;
        if wish.trial_credit < Nanos::ZERO || wish.trial_credit > LARGEST_BALANCE {
            let message = format!("`trial_credit_usd` must be from 0 to {LARGEST_BALANCE}");
            return Err(Invalid::new("trial_credit_usd", message).into());
        }
        let by = caller.clone();
        self.write(Some(caller), move |control| async move {
            let plan = Plan {
                models: control.resolve_models(&by, &wish.models)?,
                name: wish.name,
                trial_credit: wish.trial_credit,
                limits: wish.limits,
            };
            let details = format!("trial credit {} dollars", plan.trial_credit);
            let entry = control.entry(AuditAction::PlanPut, plan.name.as_str(), None, details);
            control.store.put_plan(&plan, &entry).await?;
            let plan = Arc::new(plan);
            control.directory.change_catalogue(|catalogue| {
                catalogue.plans.insert(plan.name.clone(), plan.clone());
            });
            Ok(plan)
        })
        .await
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
