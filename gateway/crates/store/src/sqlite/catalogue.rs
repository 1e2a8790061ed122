//! Plans, and changes of the whole catalogue; models are in `models.rs`, upstreams in
//! `upstreams.rs`.

use async_trait::async_trait;
use rusqlite::Connection;

use super::codec::{ReadColumn, parameters};
use super::{SqliteStore, audit, models, upstreams};
use crate::codec::{Count, List};
use crate::objects;
use crate::{Catalogue, CatalogueUpdate, StoreError};
use domain::audit::AuditEntry;
use domain::id::{ModelId, UpstreamName};
use domain::model::Model;
use domain::plan::Plan;
use domain::upstream::Upstream;

#[async_trait]
impl Catalogue for SqliteStore {
    async fn put_plan(&self, plan: &Plan, audit: &AuditEntry) -> Result<(), StoreError> {
        let plan = plan.clone();
        self.write_audited(audit, move |tx| put_plan(tx, &plan)).await
    }

    async fn put_model(&self, model: &Model, audit: &AuditEntry) -> Result<(), StoreError> {
        let model = model.clone();
        self.write_audited(audit, move |tx| models::put(tx, &model)).await
    }

    async fn remove_model(&self, id: &ModelId, audit: &AuditEntry) -> Result<(), StoreError> {
        let id = id.clone();
        self.write_audited(audit, move |tx| models::remove(tx, &id)).await
    }

    async fn put_upstream(
        &self,
        upstream: &Upstream,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let upstream = upstream.clone();
        self.write_audited(audit, move |tx| upstreams::put(tx, &upstream)).await
    }

    async fn remove_upstream(
        &self,
        name: &UpstreamName,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let name = name.clone();
        self.write_audited(audit, move |tx| upstreams::remove(tx, &name)).await
    }

    async fn update_catalogue(
        &self,
        update: &CatalogueUpdate,
        audit: &[AuditEntry],
    ) -> Result<(), StoreError> {
        let (update, audit) = (update.clone(), audit.to_vec());
        self.write(move |tx| {
            apply(tx, &update)?;
            audit.iter().try_for_each(|entry| audit::insert(tx, entry))
        })
        .await
    }

    async fn seed(
        &self,
        plans: &[Plan],
        upstreams: &[Upstream],
        models: &[Model],
    ) -> Result<bool, StoreError> {
        let (plans, upstreams, models) = (plans.to_vec(), upstreams.to_vec(), models.to_vec());
        self.write(move |tx| {
            if !mark_seeded_if_empty(tx)? {
                return Ok(false);
            }
            plans.iter().try_for_each(|plan| put_plan(tx, plan))?;
            upstreams.iter().try_for_each(|upstream| upstreams::put(tx, upstream))?;
            models.iter().try_for_each(|model| models::put(tx, model))?;
            Ok(true)
        })
        .await
    }
}

/// Makes all changes of `update`.
fn apply(tx: &Connection, update: &CatalogueUpdate) -> Result<(), StoreError> {
    update.removed_models.iter().try_for_each(|id| models::remove(tx, id))?;
    // A name may move from one model to another.
    update.models.iter().try_for_each(|model| models::delete_if_exists(tx, &model.id))?;
    update.upstreams.iter().try_for_each(|upstream| upstreams::put(tx, upstream))?;
    update.models.iter().try_for_each(|model| models::put(tx, model))?;
    update.removed_upstreams.iter().try_for_each(|name| upstreams::remove(tx, name))?;
    update.plans.iter().try_for_each(|plan| put_plan(tx, plan))
}

/// Returns all plans.
pub(super) fn plans(tx: &Connection) -> Result<Vec<Plan>, StoreError> {
    let mut select = tx.prepare_cached("SELECT * FROM plans ORDER BY name")?;
    Ok(select.query_map([], |row| objects::plan(row))?.collect::<Result<_, _>>()?)
}

fn put_plan(tx: &Connection, plan: &Plan) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(
        parameters![
            plan.name,
            plan.trial_credit,
            plan.limits.rpm.map(Count),
            plan.limits.tpm.map(Count),
            plan.limits.concurrency.map(Count),
            List::of(plan.models.iter().map(ModelId::as_str)),
            plan.limits.monthly_tokens.map(Count),
            plan.limits.observe,
            plan.max_keys
        ],
    )?;
    Ok(())
}

/// Marks the catalogue as seeded. Returns whether it is empty and was not marked before.
fn mark_seeded_if_empty(tx: &Connection) -> Result<bool, StoreError> {
    if tx.execute("INSERT OR IGNORE INTO meta VALUES ('seeded', 'yes')", [])? == 0 {
        return Ok(false);
    }
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM plans) AND NOT EXISTS (SELECT 1 FROM upstreams) \
        AND NOT EXISTS (SELECT 1 FROM models)";
    Ok(tx.query_row(sql, [], |row| row.column(0))?)
}
