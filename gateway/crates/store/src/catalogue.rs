//! Persistence of plans, models and upstreams.

use async_trait::async_trait;

use crate::StoreError;
use domain::audit::AuditEntry;
use domain::id::{ModelId, UpstreamName};
use domain::model::Model;
use domain::plan::Plan;
use domain::upstream::Upstream;

/// Plans, models and upstreams.
#[async_trait]
pub trait Catalogue: Send + Sync {
    /// Adds or replaces a plan by its name.
    async fn put_plan(&self, plan: &Plan, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Adds or replaces a model by its id, including deployments and aliases.
    /// [`StoreError::NotFound`] if a deployment names an upstream that does not exist;
    /// [`StoreError::Conflict`] if its id or an alias already names a model.
    async fn put_model(&self, model: &Model, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Removes a model; its request records stay.
    async fn remove_model(&self, id: &ModelId, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Adds or replaces an upstream by its name.
    async fn put_upstream(&self, upstream: &Upstream, audit: &AuditEntry)
    -> Result<(), StoreError>;
    /// Removes an upstream; [`StoreError::Conflict`] while a model is deployed on it.
    async fn remove_upstream(
        &self,
        name: &UpstreamName,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Applies all changes of `update` atomically, with one `audit` entry each. At most one of
    /// these may carry a call, which would otherwise conflict with itself. Remaining objects
    /// must not name removed ones; added objects may name each other. [`StoreError::NotFound`] if a
    /// deployment names an upstream that does not exist; [`StoreError::Conflict`] if a name is
    /// taken or an upstream is in use.
    async fn update_catalogue(
        &self,
        update: &CatalogueUpdate,
        audit: &[AuditEntry],
    ) -> Result<(), StoreError>;
    /// Adds `plans`, `upstreams` and `models` if the catalogue is empty and was never seeded. Marks it
    /// as seeded even if nothing is added. Returns whether it added them.
    async fn seed(
        &self,
        plans: &[Plan],
        upstreams: &[Upstream],
        models: &[Model],
    ) -> Result<bool, StoreError>;
}

/// Changes of the catalogue that are made together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueUpdate {
    /// Plans to add or replace.
    pub plans: Vec<Plan>,
    /// Upstreams to add or replace.
    pub upstreams: Vec<Upstream>,
    /// Models to add or replace.
    pub models: Vec<Model>,
    /// Models to remove.
    pub removed_models: Vec<ModelId>,
    /// Upstreams to remove.
    pub removed_upstreams: Vec<UpstreamName>,
}
