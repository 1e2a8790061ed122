//! Plans, and changes of the whole catalogue; models are in `models.rs`, upstreams in
//! `upstreams.rs`.

use async_trait::async_trait;

use super::codec::{ReadColumn, parameters};
use super::transaction::Transaction;
use super::{PostgresStore, audit, models, upstreams};
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
        let tx = connection.begin(self.epoch).await?;
        put_plan(&tx, plan).await?;
        tx.commit_audited(audit).await
    }

    async fn put_model(&self, model: &Model, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        models::put(&tx, model).await?;
        tx.commit_audited(audit).await
    }

    async fn remove_model(&self, id: &ModelId, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        models::remove(&tx, id).await?;
        tx.commit_audited(audit).await
    }

    async fn put_upstream(
        &self,
        upstream: &Upstream,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        upstreams::put(&tx, upstream).await?;
        tx.commit_audited(audit).await
    }

    async fn remove_upstream(
        &self,
        name: &UpstreamName,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        upstreams::remove(&tx, name).await?;
        tx.commit_audited(audit).await
    }

    async fn update_catalogue(
        &self,
        update: &CatalogueUpdate,
        audit: &[AuditEntry],
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        apply(&tx, update).await?;
        for entry in audit {
            audit::insert(&tx, entry).await?;
        }
        tx.commit().await
    }

    async fn seed(
        &self,
        plans: &[Plan],
        upstreams: &[Upstream],
        models: &[Model],
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let is_seeded = mark_seeded_if_empty(&tx).await?;
        if is_seeded {
            for plan in plans {
                put_plan(&tx, plan).await?;
            }
            for upstream in upstreams {
                upstreams::put(&tx, upstream).await?;
            }
            for model in models {
                models::put(&tx, model).await?;
            }
        }
        tx.commit().await?;
        Ok(is_seeded)
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

/// Returns all plans.
pub(super) async fn plans(tx: &Transaction<'_>) -> Result<Vec<Plan>, StoreError> {
    let rows = tx.query("SELECT * FROM plans ORDER BY name", &[]).await?;
    rows.iter().map(objects::plan).collect()
}

async fn put_plan(tx: &Transaction<'_>, plan: &Plan) -> Result<(), StoreError> {
    let sql = "INSERT INTO plans (name, trial_credit, rpm, tpm, concurrency, models, \
        monthly_tokens, observe) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
        ON CONFLICT (name) DO UPDATE SET (trial_credit, rpm, tpm, concurrency, models, \
        monthly_tokens, observe) = ROW(excluded.trial_credit, excluded.rpm, excluded.tpm, \
        excluded.concurrency, excluded.models, excluded.monthly_tokens, excluded.observe)";
    let values = parameters![
        plan.name,
        plan.trial_credit,
        plan.limits.rpm.map(Count),
        plan.limits.tpm.map(Count),
        plan.limits.concurrency.map(Count),
        List::of(plan.models.iter().map(ModelId::as_str)),
        plan.limits.monthly_tokens.map(Count),
        plan.limits.observe
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
