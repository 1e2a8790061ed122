//! Several changes of the catalogue at once: all of them are made, or none.
//!
//! They are made in a copy of the catalogue first. What entries say of each other (a deployment's upstream, a
//! name that only one model may have, an upstream that nothing may use any more) is checked in that copy as it
//! is after all changes, so that their order does not matter and each may rely on the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::{Again, Change};
use super::models::{self, ModelChange};
use super::plans::{NewPlan, check_limits, plan_details};
use super::upstreams::{self, UpstreamChange};
use super::{Caller, Control, ControlError};
use crate::directory::Catalogue;
use domain::audit::{AuditAction, AuditEntry};
use domain::difference;
use domain::id::{ModelId, UpstreamName};
use store::CatalogueUpdate;

/// The most changes of one call.
const MAX_CHANGES: usize = 10_000;

/// One change of the catalogue.
#[derive(Debug)]
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
    /// Makes a plan, or replaces the one of that name.
    PutPlan(NewPlan),
}

/// What becomes of changes that are found to be possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply {
    /// They are made.
    Commit,
    /// They are only checked.
    DryRun,
}

/// The catalogue as it is after the changes so far.
struct Draft<'a> {
    change: &'a Change,
    catalogue: Catalogue,
    audit: Vec<AuditEntry>,
}

impl Control {
    /// Makes all of `changes`, or none.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members; those of the single changes, named by what they are about.
    pub async fn apply_changes(
        self: &Arc<Self>,
        caller: &Caller,
        changes: Vec<CatalogueChange>,
        apply: Apply,
    ) -> Result<(), ControlError> {
        caller.require_operator("change the catalogue")?;
        if changes.len() > MAX_CHANGES {
            let message = format!("`changes` must be at most {MAX_CHANGES}");
            return Err(domain::Invalid::new("changes", message).into());
        }
        self.write(Some(caller), move |control| async move {
            let before = control.directory.catalogue().clone();
            let catalogue = Catalogue::clone(&before);
            let mut draft = Draft { change: &control, catalogue, audit: Vec::new() };
            // plans name models by any of their names, and nothing names plans
            let (plans, others): (Vec<_>, Vec<_>) = changes
                .into_iter()
                .partition(|change| matches!(change, CatalogueChange::PutPlan(_)));
            for change in others {
                draft.make(change)?;
            }
            draft.catalogue.index();
            for change in plans {
                draft.make(change)?;
            }
            let update = draft.check(&before)?;
            let Draft { catalogue, mut audit, .. } = draft;
            if apply == Apply::DryRun || audit.is_empty() {
                return Ok(());
            }
            // the call is remembered once
            audit.iter_mut().skip(1).for_each(|entry| entry.call = None);
            control.store.update_catalogue(&update, &audit).await?;
            // before the directory, so that no request finds an upstream without its credential
            control.refresh_credentials(catalogue.upstreams.values()).await;
            control.directory.set_catalogue(catalogue);
            if !update.removed_upstreams.is_empty() {
                control.refresh_credentials([]).await;
            }
            Ok(())
        })
        .await
        .or_replay(|_| Ok(()))
    }
}

// === impl Draft ===

impl Draft<'_> {
    /// Makes one change in the copy.
    fn make(&mut self, change: CatalogueChange) -> Result<(), ControlError> {
        let title = change.title();
        self.try_make(change).map_err(|error| error.about(&title))
    }

    fn try_make(&mut self, change: CatalogueChange) -> Result<(), ControlError> {
        let catalogue = &mut self.catalogue;
        match change {
            CatalogueChange::AddUpstream(name, change) => {
                if catalogue.upstreams.contains_key(&name) {
                    return Err(ControlError::Exists("it exists already".to_owned()));
                }
                let upstream = self.change.new_upstream(name.clone(), change)?;
                let details = difference::all_of(&upstream);
                catalogue.upstreams.insert(name.clone(), Arc::new(upstream));
                self.note(AuditAction::UpstreamAdd, name.as_str(), details);
            }
            CatalogueChange::UpdateUpstream(name, change) => {
                let before = catalogue.upstreams.get(name.as_str());
                let before = before.ok_or_else(|| ControlError::missing("upstream", &name))?;
                let after = self.change.changed_upstream(before, change)?;
                let details = upstreams::between(before, &after);
                catalogue.upstreams.insert(after.name.clone(), Arc::new(after));
                self.note(AuditAction::UpstreamUpdate, &name, details);
            }
            CatalogueChange::RemoveUpstream(name) => {
                let before = catalogue.upstreams.remove(name.as_str());
                let before = before.ok_or_else(|| ControlError::missing("upstream", &name))?;
                self.note(AuditAction::UpstreamRemove, &name, difference::all_of(&*before));
            }
            CatalogueChange::AddModel(id, change) => {
                if catalogue.models.contains_key(&id) {
                    return Err(ControlError::Exists("it exists already".to_owned()));
                }
                check_limits(&change.limits)?;
                let model = change.into_new(id.clone(), self.change.clock.now());
                let details = difference::all_of(&model);
                catalogue.models.insert(id.clone(), Arc::new(model));
                self.note(AuditAction::ModelAdd, id.as_str(), details);
            }
            CatalogueChange::UpdateModel(id, change) => {
                let before = catalogue.models.get(id.as_str());
                let before = before.ok_or_else(|| ControlError::missing("model", &id))?;
                let after = change.apply_to(before);
                let details = difference::between(&**before, &after);
                catalogue.models.insert(after.id.clone(), Arc::new(after));
                self.note(AuditAction::ModelUpdate, &id, details);
            }
            CatalogueChange::RemoveModel(id) => {
                let before = catalogue.models.remove(id.as_str());
                let before = before.ok_or_else(|| ControlError::missing("model", &id))?;
                self.note(AuditAction::ModelRemove, &id, difference::all_of(&*before));
            }
            CatalogueChange::PutPlan(wish) => {
                wish.check()?;
                let plan = wish.into_plan(catalogue)?;
                let (name, details) = (plan.name.clone(), plan_details(&plan, catalogue));
                catalogue.plans.insert(name.clone(), Arc::new(plan));
                self.note(AuditAction::PlanPut, name.as_str(), details);
            }
        }
        Ok(())
    }

    fn note(&mut self, action: AuditAction, object: &str, details: String) {
        self.audit.push(self.change.entry(action, object, None, details));
    }

    /// Checks the copy as a whole, and returns what is to be written to make it of `before`.
    fn check(&self, before: &Catalogue) -> Result<CatalogueUpdate, ControlError> {
        let update = CatalogueUpdate {
            plans: changed(&before.plans, &self.catalogue.plans),
            upstreams: changed(&before.upstreams, &self.catalogue.upstreams),
            models: changed(&before.models, &self.catalogue.models),
            removed_models: removed(&before.models, &self.catalogue.models),
            removed_upstreams: removed(&before.upstreams, &self.catalogue.upstreams),
        };
        for name in &update.removed_upstreams {
            upstreams::refuse_used(name.as_str(), &self.catalogue)?;
        }
        for model in &update.models {
            models::check(model, &self.catalogue)
                .map_err(|error| error.about(&format!("model {}", model.id)))?;
        }
        Ok(update)
    }
}

/// Returns the entries that are new or another than before.
fn changed<K: Ord, T: Clone + PartialEq>(
    before: &BTreeMap<K, Arc<T>>,
    after: &BTreeMap<K, Arc<T>>,
) -> Vec<T> {
    let changed = after.iter().filter(|(key, entry)| before.get(*key) != Some(*entry));
    changed.map(|(_, entry)| T::clone(entry)).collect()
}

/// Returns the keys of the entries that are gone.
fn removed<K: Ord + Clone, T>(before: &BTreeMap<K, Arc<T>>, after: &BTreeMap<K, Arc<T>>) -> Vec<K> {
    before.keys().filter(|key| !after.contains_key(*key)).cloned().collect()
}

// === impl CatalogueChange ===

impl CatalogueChange {
    /// Names what it is about.
    fn title(&self) -> String {
        match self {
            Self::AddUpstream(name, _) => format!("upstream {name}"),
            Self::UpdateUpstream(name, _) | Self::RemoveUpstream(name) => {
                format!("upstream {}", super::error::shown(name))
            }
            Self::AddModel(id, _) => format!("model {id}"),
            Self::UpdateModel(id, _) | Self::RemoveModel(id) => {
                format!("model {}", super::error::shown(id))
            }
            Self::PutPlan(wish) => format!("plan {}", wish.name),
        }
    }
}
