//! Atomic batches of catalogue changes: all changes are applied, or none.
//!
//! The changes are applied to a copy of the catalogue first. References between entries (the
//! upstream of a deployment, the uniqueness of names, the removal of an unused upstream) are
//! validated in the final copy. Therefore the order of changes does not matter, and each may depend
//! on the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::access::Permission;
use super::change::{ChangeContext, ReplayExt};
use super::models::{self, ModelChange};
use super::plans::{NewPlan, check_limits, plan_details};
use super::upstreams::{self, UpstreamChange};
use super::{Caller, Control, ControlError};
use crate::directory::Catalogue;
use domain::audit::{AuditAction, AuditEntry};
use domain::audit_diff;
use domain::id::{ModelId, UpstreamName};
use store::CatalogueUpdate;

/// The maximum number of changes per call.
const MAX_CHANGES: usize = 10_000;

/// One change of the catalogue.
#[derive(Clone, Debug)]
pub enum CatalogueChange {
    /// Adds an upstream.
    AddUpstream(UpstreamName, UpstreamChange),
    /// Changes the upstream of this name.
    UpdateUpstream(String, UpstreamChange),
    /// Removes the upstream of this name.
    RemoveUpstream(String),
    /// Adds a model.
    AddModel(ModelId, ModelChange),
    /// Changes the model of this id.
    UpdateModel(String, ModelChange),
    /// Removes the model of this id.
    RemoveModel(String),
    /// Creates a plan, or replaces the plan of that name.
    PutPlan(NewPlan),
}

/// Whether valid changes are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply {
    /// Applies the changes.
    Commit,
    /// Only validates the changes.
    DryRun,
}

/// A copy of the catalogue with the changes so far, and their audit entries.
struct StagedCatalogue<'a> {
    context: &'a ChangeContext,
    catalogue: Catalogue,
    audit: Vec<AuditEntry>,
}

impl Control {
    /// Applies all of `changes`, or none.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members; the errors of the single changes, prefixed by the
    /// object's name.
    pub async fn apply_changes(
        self: &Arc<Self>,
        caller: &Caller,
        changes: Vec<CatalogueChange>,
        apply: Apply,
    ) -> Result<(), ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        if changes.len() > MAX_CHANGES {
            let message = format!("`changes` must be at most {MAX_CHANGES}");
            return Err(domain::ValidationError::new("changes", message).into());
        }
        self.write(Some(caller), move |control| async move {
            let before = control.directory.catalogue().clone();
            let catalogue = Catalogue::clone(&before);
            let mut staged = StagedCatalogue { context: &control, catalogue, audit: Vec::new() };
            // Plans refer to models by any of their names, and nothing refers to plans.
            let (plans, others): (Vec<_>, Vec<_>) = changes
                .into_iter()
                .partition(|change| matches!(change, CatalogueChange::PutPlan(_)));
            for change in others {
                staged.stage(change)?;
            }
            staged.catalogue.index();
            for change in plans {
                staged.stage(change)?;
            }
            let update = staged.validate(&before)?;
            let StagedCatalogue { catalogue, mut audit, .. } = staged;
            if apply == Apply::DryRun || audit.is_empty() {
                return Ok(());
            }
            // The idempotency key is stored with one entry only.
            audit.iter_mut().skip(1).for_each(|entry| entry.call = None);
            control.store.update_catalogue(&update, &audit).await?;
            // Before the directory, so that no request finds an upstream without its credential.
            control.refresh_credentials(catalogue.upstreams.values()).await;
            control.directory.set_catalogue(catalogue);
            control.drop_old_credentials();
            Ok(())
        })
        .await
        .or_replay(|_| Ok(()))
    }
}

// === impl StagedCatalogue ===

impl StagedCatalogue<'_> {
    /// Applies one change to the copy.
    fn stage(&mut self, change: CatalogueChange) -> Result<(), ControlError> {
        let title = change.title();
        self.try_stage(change).map_err(|error| error.with_subject(&title))
    }

    fn try_stage(&mut self, change: CatalogueChange) -> Result<(), ControlError> {
        let catalogue = &mut self.catalogue;
        match change {
            CatalogueChange::AddUpstream(name, change) => {
                if catalogue.upstreams.contains_key(&name) {
                    return Err(ControlError::Exists("it exists already".to_owned()));
                }
                let upstream = self.context.new_upstream(name.clone(), change)?;
                let details = audit_diff::describe(&upstream);
                catalogue.upstreams.insert(name.clone(), Arc::new(upstream));
                self.add_audit_entry(AuditAction::UpstreamAdd, name.as_str(), details);
            }
            CatalogueChange::UpdateUpstream(name, change) => {
                let before = catalogue.upstreams.get(name.as_str());
                let before = before.ok_or_else(|| ControlError::missing("upstream", &name))?;
                let after = self.context.changed_upstream(before, change)?;
                let details = upstreams::describe_change(before, &after);
                catalogue.upstreams.insert(after.name.clone(), Arc::new(after));
                self.add_audit_entry(AuditAction::UpstreamUpdate, &name, details);
            }
            CatalogueChange::RemoveUpstream(name) => {
                let before = catalogue.upstreams.remove(name.as_str());
                let before = before.ok_or_else(|| ControlError::missing("upstream", &name))?;
                self.add_audit_entry(
                    AuditAction::UpstreamRemove,
                    &name,
                    audit_diff::describe(&*before),
                );
            }
            CatalogueChange::AddModel(id, change) => {
                if catalogue.models.contains_key(&id) {
                    return Err(ControlError::Exists("it exists already".to_owned()));
                }
                check_limits(&change.limits)?;
                let model = change.into_new(id.clone(), self.context.clock.now());
                let details = audit_diff::describe(&model);
                catalogue.models.insert(id.clone(), Arc::new(model));
                self.add_audit_entry(AuditAction::ModelAdd, id.as_str(), details);
            }
            CatalogueChange::UpdateModel(id, change) => {
                let before = catalogue.models.get(id.as_str());
                let before = before.ok_or_else(|| ControlError::missing("model", &id))?;
                let after = change.apply_to(before);
                let details = audit_diff::describe_changes(&**before, &after);
                catalogue.models.insert(after.id.clone(), Arc::new(after));
                self.add_audit_entry(AuditAction::ModelUpdate, &id, details);
            }
            CatalogueChange::RemoveModel(id) => {
                let before = catalogue.models.remove(id.as_str());
                let before = before.ok_or_else(|| ControlError::missing("model", &id))?;
                self.add_audit_entry(AuditAction::ModelRemove, &id, audit_diff::describe(&*before));
            }
            CatalogueChange::PutPlan(request) => {
                request.check()?;
                let plan = request.into_plan(catalogue)?;
                let (name, details) = (plan.name.clone(), plan_details(&plan, catalogue));
                catalogue.plans.insert(name.clone(), Arc::new(plan));
                self.add_audit_entry(AuditAction::PlanPut, name.as_str(), details);
            }
        }
        Ok(())
    }

    fn add_audit_entry(&mut self, action: AuditAction, object: &str, details: String) {
        self.audit.push(self.context.audit_entry(action, object, None, details));
    }

    /// Validates the copy. Returns the update that turns `before` into it.
    fn validate(&self, before: &Catalogue) -> Result<CatalogueUpdate, ControlError> {
        let update = CatalogueUpdate {
            plans: changed(&before.plans, &self.catalogue.plans),
            upstreams: changed(&before.upstreams, &self.catalogue.upstreams),
            models: changed(&before.models, &self.catalogue.models),
            removed_models: removed(&before.models, &self.catalogue.models),
            removed_upstreams: removed(&before.upstreams, &self.catalogue.upstreams),
        };
        for name in &update.removed_upstreams {
            upstreams::ensure_unused(name.as_str(), &self.catalogue)?;
        }
        for model in &update.models {
            models::check(model, &self.catalogue)
                .map_err(|error| error.with_subject(&format!("model {}", model.id)))?;
        }
        Ok(update)
    }
}

/// Returns the new and changed entries.
fn changed<K: Ord, T: Clone + PartialEq>(
    before: &BTreeMap<K, Arc<T>>,
    after: &BTreeMap<K, Arc<T>>,
) -> Vec<T> {
    let changed = after.iter().filter(|(key, entry)| before.get(*key) != Some(*entry));
    changed.map(|(_, entry)| T::clone(entry)).collect()
}

/// Returns the keys of the removed entries.
fn removed<K: Ord + Clone, T>(before: &BTreeMap<K, Arc<T>>, after: &BTreeMap<K, Arc<T>>) -> Vec<K> {
    before.keys().filter(|key| !after.contains_key(*key)).cloned().collect()
}

// === impl CatalogueChange ===

impl CatalogueChange {
    /// Returns the kind and name of the changed object.
    fn title(&self) -> String {
        match self {
            Self::AddUpstream(name, _) => format!("upstream {name}"),
            Self::UpdateUpstream(name, _) | Self::RemoveUpstream(name) => {
                format!("upstream {}", super::error::printable(name))
            }
            Self::AddModel(id, _) => format!("model {id}"),
            Self::UpdateModel(id, _) | Self::RemoveModel(id) => {
                format!("model {}", super::error::printable(id))
            }
            Self::PutPlan(request) => format!("plan {}", request.name),
        }
    }
}
