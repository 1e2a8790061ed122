//! Models with their names and deployments.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::codec::{ReadColumn, arrays, parameters};
use super::error::{Constrained, expect_changed};
use super::transaction::Transaction;
use crate::StoreError;
use crate::codec::{At, Count, List, Micros};
use crate::codes::Code;
use crate::objects;
use domain::id::ModelId;
use domain::model::Model;

/// Adds or replaces a model by its id, names and deployments included.
pub(super) async fn put(tx: &Transaction<'_>, model: &Model) -> Result<(), StoreError> {
    delete_if_exists(tx, &model.id).await?;
    insert(tx, model).await?;
    for (position, name) in std::iter::once(&model.id).chain(&model.aliases).enumerate() {
        insert_name(tx, model, name, position).await?;
    }
    let sql = "INSERT INTO deployments (model, position, upstream, upstream_model, weight, \
        priority) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], \
        $5::bigint[], $6::bigint[])";
    let deployments = (0..).zip(&model.deployments).map(|(position, at)| (&model.id, position, at));
    let deployments: Vec<_> = deployments.collect();
    let values = arrays!(
        deployments,
        |row| row.0,
        Count(row.1),
        &row.2.upstream,
        &row.2.upstream_model,
        row.2.weight,
        row.2.priority
    );
    tx.execute(sql, values).await.or_not_found()?;
    Ok(())
}

/// Deletes a model with its names and deployments, if it exists.
pub(super) async fn delete_if_exists(
    tx: &Transaction<'_>,
    id: &ModelId,
) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM models WHERE id = $1", parameters![id]).await
}

/// Deletes a model with its names and deployments; [`StoreError::NotFound`] if it does not exist.
pub(super) async fn remove(tx: &Transaction<'_>, id: &ModelId) -> Result<(), StoreError> {
    expect_changed(delete_if_exists(tx, id).await?)
}

/// Returns all models.
pub(super) async fn all(tx: &Transaction<'_>) -> Result<Vec<Model>, StoreError> {
    let sql = "SELECT model, name FROM model_names WHERE position > 0 ORDER BY model, position";
    let mut aliases = grouped(tx, sql, |row| row.column("name")).await?;
    let sql = "SELECT model, upstream, upstream_model, weight, priority FROM deployments \
        ORDER BY model, position";
    let mut deployments = grouped(tx, sql, objects::deployment).await?;
    let sql = "SELECT id, display_name, description, context_window, max_output_tokens, rpm, tpm, \
        concurrency, monthly_tokens, observe, price_input, price_cached, price_output, \
        price_version, abilities, inputs, routing, hedge_after, created_at FROM models ORDER BY id";
    let rows = tx.query(sql, &[]).await?;
    let mut models: Vec<Model> = rows.iter().map(objects::model).collect::<Result<_, _>>()?;
    for model in &mut models {
        model.aliases = aliases.remove(&model.id).unwrap_or_default();
        model.deployments = deployments.remove(&model.id).unwrap_or_default();
    }
    Ok(models)
}

async fn insert(tx: &Transaction<'_>, model: &Model) -> Result<(), StoreError> {
    let sql = "INSERT INTO models (id, display_name, description, context_window, \
        max_output_tokens, rpm, tpm, concurrency, price_input, price_cached, price_output, \
        price_version, abilities, created_at, monthly_tokens, observe, inputs, routing, \
        hedge_after) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";
    let values = parameters![
        model.id,
        model.display_name,
        model.description,
        model.context_window,
        model.max_output_tokens,
        model.limits.rpm.map(Count),
        model.limits.tpm.map(Count),
        model.limits.concurrency.map(Count),
        model.price.input,
        model.price.cached,
        model.price.output,
        model.price.version,
        List::of(model.abilities.iter().map(|ability| ability.code())),
        At(model.created_at),
        model.limits.monthly_tokens.map(Count),
        model.limits.observe,
        List::of(model.inputs.iter().map(|modality| modality.code())),
        model.routing,
        model.hedge_after.map(Micros)
    ];
    tx.execute(sql, values).await?;
    Ok(())
}

async fn insert_name(
    tx: &Transaction<'_>,
    model: &Model,
    name: &ModelId,
    position: usize,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO model_names (name, model, position) VALUES ($1, $2, $3) \
        ON CONFLICT DO NOTHING";
    if tx.execute(sql, parameters![name, model.id, Count(position as u64)]).await? > 0 {
        return Ok(());
    }
    let sql = "SELECT model FROM model_names WHERE name = $1";
    let owner = tx.query_one("model_names", sql, parameters![name]).await?;
    let owner: ModelId = owner.column(0)?;
    Err(StoreError::Conflict(format!("`{name}` is already a name of model `{owner}`")))
}

async fn grouped<T>(
    tx: &Transaction<'_>,
    sql: &str,
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<HashMap<ModelId, Vec<T>>, StoreError> {
    let mut groups = HashMap::<ModelId, Vec<T>>::new();
    for row in tx.query(sql, &[]).await? {
        groups.entry(row.column("model")?).or_default().push(read(&row)?);
    }
    Ok(groups)
}
