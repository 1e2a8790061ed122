//! Models with their names and deployments.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use crate::StoreError;
use crate::codec::{At, Count, List, Micros};
use crate::codes::Code;
use crate::objects;
use domain::id::ModelId;
use domain::model::Model;

/// Adds or replaces a model by its id, names and deployments included.
pub(super) fn put(tx: &Connection, model: &Model) -> Result<(), StoreError> {
    delete_if_exists(tx, &model.id)?;
    insert(tx, model)?;
    for (position, name) in std::iter::once(&model.id).chain(&model.aliases).enumerate() {
        insert_name(tx, model, name, position)?;
    }
    let mut deploy = tx.prepare_cached("INSERT INTO deployments VALUES (?, ?, ?, ?, ?, ?)")?;
    for (position, at) in model.deployments.iter().enumerate() {
        deploy
            .execute(parameters![
                model.id,
                Count(position as u64),
                at.upstream,
                at.upstream_model,
                at.weight,
                at.priority
            ])
            .or_not_found()?;
    }
    Ok(())
}

/// Deletes a model with its names and deployments, if it exists.
pub(super) fn delete_if_exists(tx: &Connection, id: &ModelId) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM models WHERE id = ?")?.execute(parameters![id])?;
    Ok(())
}

/// Deletes a model with its names and deployments; [`StoreError::NotFound`] if it does not exist.
pub(super) fn remove(tx: &Connection, id: &ModelId) -> Result<(), StoreError> {
    match tx.prepare_cached("DELETE FROM models WHERE id = ?")?.execute(parameters![id])? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// Returns all models.
pub(super) fn all(tx: &Connection) -> Result<Vec<Model>, StoreError> {
    let mut aliases = grouped(
        tx,
        "SELECT model, name FROM model_names WHERE position > 0 ORDER BY model, position",
        |row| row.column(1),
    )?;
    let mut deployments = grouped(
        tx,
        "SELECT model, upstream, upstream_model, weight, priority FROM deployments \
            ORDER BY model, position",
        |row| objects::deployment(row),
    )?;
    let mut select = tx.prepare_cached("SELECT * FROM models ORDER BY id")?;
    let mut models: Vec<Model> =
        select.query_map([], |row| objects::model(row))?.collect::<Result<_, _>>()?;
    for model in &mut models {
        model.aliases = aliases.remove(&model.id).unwrap_or_default();
        model.deployments = deployments.remove(&model.id).unwrap_or_default();
    }
    Ok(models)
}

fn insert(tx: &Connection, model: &Model) -> Result<(), StoreError> {
    let sql = "INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    tx.prepare_cached(sql)?.execute(parameters![
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
    ])?;
    Ok(())
}

fn insert_name(
    tx: &Connection,
    model: &Model,
    name: &ModelId,
    position: usize,
) -> Result<(), StoreError> {
    let sql = "SELECT model FROM model_names WHERE name = ?";
    let owner: Option<ModelId> =
        tx.prepare_cached(sql)?.query_row(parameters![name], |row| row.column(0)).optional()?;
    if let Some(owner) = owner {
        let text = format!("`{name}` is already a name of model `{owner}`");
        return Err(StoreError::Conflict(text));
    }
    tx.prepare_cached("INSERT INTO model_names VALUES (?, ?, ?)")?.execute(parameters![
        name,
        model.id,
        Count(position as u64)
    ])?;
    Ok(())
}

fn grouped<T>(
    tx: &Connection,
    sql: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<HashMap<ModelId, Vec<T>>, StoreError> {
    let mut groups = HashMap::<ModelId, Vec<T>>::new();
    let mut select = tx.prepare_cached(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        groups.entry(row.column(0)?).or_default().push(read(row)?);
    }
    Ok(groups)
}
