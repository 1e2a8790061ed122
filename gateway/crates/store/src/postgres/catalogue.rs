//! Plans, and changes of the whole catalogue; models are in `models.rs`, upstreams in
//! `upstreams.rs`.

use async_trait::async_trait;

use super::changes::ChangedObject;
use super::codec::{ReadColumn, parameters};
use super::transaction::Transaction;
use super::{PostgresStore, models, upstreams};
use crate::codec::{Count, List};
use crate::objects;
use crate::{Catalogue, CatalogueUpdate, StoreError};
use domain::audit::AuditEntry;
use domain::id::{ModelId, UpstreamName};
use domain::model::Model;
use domain::plan::Plan;
use domain::upstream::Upstream;

#[async_trait]
impl Catalogue for PostgresStore {
    async fn put_plan(&self, plan: &Plan, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        put_plan(&tx, plan).await?;
        tx.changes(ChangedObject::Plan(plan.name.clone()));
        tx.commit_audited(audit).await
    }

    async fn put_model(&self, model: &Model, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        models::put(&tx, model).await?;
        tx.changes(ChangedObject::Model(model.id.clone()));
        tx.commit_audited(audit).await
    }

    async fn remove_model(&self, id: &ModelId, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        models::remove(&tx, id).await?;
        tx.changes(ChangedObject::Model(id.clone()));
        tx.commit_audited(audit).await
    }

    async fn put_upstream(
        &self,
        upstream: &Upstream,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        upstreams::put(&tx, upstream).await?;
        tx.changes(ChangedObject::Upstream(upstream.name.clone()));
        tx.commit_audited(audit).await
    }

    async fn remove_upstream(
        &self,
        name: &UpstreamName,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        upstreams::remove(&tx, name).await?;
        tx.changes(ChangedObject::Upstream(name.clone()));
        tx.commit_audited(audit).await
    }

    async fn update_catalogue(
        &self,
        update: &CatalogueUpdate,
        audit: &[AuditEntry],
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        apply(&tx, update).await?;
        changed_objects(update).for_each(|object| tx.changes(object));
        tx.commit_all_audited(audit).await
    }

    async fn seed(
        &self,
        plans: &[Plan],
        upstreams: &[Upstream],
        models: &[Model],
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        if !mark_seeded_if_empty(&tx).await? {
            tx.commit().await?;
            return Ok(false);
        }
        let mut tx = self.lock_changes(tx).await?;
        for plan in plans {
            put_plan(&tx, plan).await?;
            tx.changes(ChangedObject::Plan(plan.name.clone()));
        }
        for upstream in upstreams {
            upstreams::put(&tx, upstream).await?;
            tx.changes(ChangedObject::Upstream(upstream.name.clone()));
        }
        for model in models {
            models::put(&tx, model).await?;
            tx.changes(ChangedObject::Model(model.id.clone()));
        }
        tx.commit_all_audited(&[]).await?;
        Ok(true)
    }
}

/// Makes all changes of `update`.
async fn apply(tx: &Transaction<'_>, update: &CatalogueUpdate) -> Result<(), StoreError> {
    for id in &update.removed_models {
        models::remove(tx, id).await?;
    }
    // A name may move from one model to another.
    for model in &update.models {
        models::delete_if_exists(tx, &model.id).await?;
    }
    for upstream in &update.upstreams {
        upstreams::put(tx, upstream).await?;
    }
    for model in &update.models {
        models::put(tx, model).await?;
    }
    for name in &update.removed_upstreams {
        upstreams::remove(tx, name).await?;
    }
    for plan in &update.plans {
        put_plan(tx, plan).await?;
    }
    Ok(())
}

/// Returns the objects that `update` changes.
fn changed_objects(update: &CatalogueUpdate) -> impl Iterator<Item = ChangedObject> {
    let plans = update.plans.iter().map(|plan| &plan.name);
    let models = update.models.iter().map(|model| &model.id).chain(&update.removed_models);
    let upstreams = update.upstreams.iter().map(|upstream| &upstream.name);
    let upstreams = upstreams.chain(&update.removed_upstreams);
    let plans = plans.cloned().map(ChangedObject::Plan);
    let models = models.cloned().map(ChangedObject::Model);
    plans.chain(models).chain(upstreams.cloned().map(ChangedObject::Upstream))
}

/// Returns all plans.
pub(super) async fn plans(tx: &Transaction<'_>) -> Result<Vec<Plan>, StoreError> {
    let sql = "SELECT name, trial_credit, rpm, tpm, concurrency, monthly_tokens, observe, models, \
        max_keys FROM plans ORDER BY name";
    let rows = tx.query(sql, &[]).await?;
    rows.iter().map(objects::plan).collect()
}

async fn put_plan(tx: &Transaction<'_>, plan: &Plan) -> Result<(), StoreError> {
    let sql = "INSERT INTO plans (name, trial_credit, rpm, tpm, concurrency, models, \
        monthly_tokens, observe, max_keys) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
        ON CONFLICT (name) DO UPDATE SET (trial_credit, rpm, tpm, concurrency, models, \
        monthly_tokens, observe, max_keys) = ROW(excluded.trial_credit, excluded.rpm, excluded.tpm, \
        excluded.concurrency, excluded.models, excluded.monthly_tokens, excluded.observe, \
        excluded.max_keys)";
    let values = parameters![
        plan.name,
        plan.trial_credit,
        plan.limits.rpm.map(Count),
        plan.limits.tpm.map(Count),
        plan.limits.concurrency.map(Count),
        List::of(plan.models.iter().map(ModelId::as_str)),
        plan.limits.monthly_tokens.map(Count),
        plan.limits.observe,
        plan.max_keys
    ];
    tx.execute(sql, values).await?;
    Ok(())
}

/// Marks the catalogue as seeded. Returns whether it is empty and was not marked before.
async fn mark_seeded_if_empty(tx: &Transaction<'_>) -> Result<bool, StoreError> {
    let sql = "INSERT INTO meta (name, value) VALUES ('seeded', 'yes') ON CONFLICT DO NOTHING";
    if tx.execute(sql, &[]).await? == 0 {
        return Ok(false);
    }
    let sql = "SELECT NOT EXISTS (SELECT FROM plans) AND NOT EXISTS (SELECT FROM upstreams) \
        AND NOT EXISTS (SELECT FROM models)";
    tx.query_one("the catalogue", sql, &[]).await?.column(0)
}
