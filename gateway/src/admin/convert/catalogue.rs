//! Converts the changes of an atomic catalogue change.

use proto::v1;
use proto::v1::catalogue_change::Change;

use super::request;
use crate::control::catalogue::CatalogueChange;
use domain::ValidationError;

/// Converts one change.
///
/// # Errors
/// A field is invalid. The message names the changed object, because a request contains many changes.
pub(in super::super) fn catalogue_change(
    change: v1::CatalogueChange,
) -> Result<CatalogueChange, ValidationError> {
    let missing = || ValidationError::new("changes", "a change in `changes` is empty or unknown");
    let change = change.change.ok_or_else(missing)?;
    let object = object_name(&change);
    convert(change).map_err(|ValidationError { field, message }| {
        ValidationError::new(field, format!("{object}: {message}"))
    })
}

fn convert(change: Change) -> Result<CatalogueChange, ValidationError> {
    Ok(match change {
        Change::AddUpstream(request) => {
            let (name, change) = request::new_upstream(request.upstream)?;
            CatalogueChange::AddUpstream(name, change)
        }
        Change::UpdateUpstream(request) => {
            let (name, change) = request::upstream_change(request)?;
            CatalogueChange::UpdateUpstream(name, change)
        }
        Change::RemoveUpstream(request) => CatalogueChange::RemoveUpstream(request.name),
        Change::AddModel(request) => {
            let (id, change) = request::new_model(request.model)?;
            CatalogueChange::AddModel(id, change)
        }
        Change::UpdateModel(request) => {
            let (id, change) = request::model_change(request)?;
            CatalogueChange::UpdateModel(id, change)
        }
        Change::RemoveModel(request) => CatalogueChange::RemoveModel(request.id),
        Change::PutPlan(request) => CatalogueChange::PutPlan(request::new_plan(request.plan)?),
    })
}

/// Returns the kind and the name of the changed object, with the name truncated and escaped.
fn object_name(change: &Change) -> String {
    let (noun, name) = match change {
        Change::AddUpstream(v1::AddUpstreamRequest { upstream }) => {
            ("upstream", upstream.as_ref().map(|upstream| &upstream.name))
        }
        Change::UpdateUpstream(request) => ("upstream", Some(&request.name)),
        Change::RemoveUpstream(request) => ("upstream", Some(&request.name)),
        Change::AddModel(v1::AddModelRequest { model }) => {
            ("model", model.as_ref().map(|model| &model.id))
        }
        Change::UpdateModel(request) => ("model", Some(&request.id)),
        Change::RemoveModel(request) => ("model", Some(&request.id)),
        Change::PutPlan(v1::PutPlanRequest { plan }) => {
            ("plan", plan.as_ref().map(|plan| &plan.name))
        }
    };
    let name: String = name.into_iter().flat_map(|name| name.chars().take(64)).collect();
    format!("{noun} {}", name.escape_debug())
}
