//! Reads changes of the catalogue that are made together.

use proto::v1;
use proto::v1::catalogue_change::Change;

use super::given;
use crate::control::catalogue::CatalogueChange;
use domain::Invalid;

/// Reads one change. What is wrong with it is said with what the change is about: it is one of many.
pub(in super::super) fn catalogue_change(
    change: v1::CatalogueChange,
) -> Result<CatalogueChange, Invalid> {
    let missing = || Invalid::new("changes", "a change in `changes` is empty or not known");
    let change = change.change.ok_or_else(missing)?;
    let title = title(&change);
    read(change)
        .map_err(|Invalid { field, message }| Invalid::new(field, format!("{title}: {message}")))
}

fn read(change: Change) -> Result<CatalogueChange, Invalid> {
    Ok(match change {
        Change::AddUpstream(request) => {
            let (name, change) = given::new_upstream(request.upstream)?;
            CatalogueChange::AddUpstream(name, change)
        }
        Change::UpdateUpstream(request) => {
            let (name, change) = given::upstream_change(request)?;
            CatalogueChange::UpdateUpstream(name, change)
        }
        Change::RemoveUpstream(request) => CatalogueChange::RemoveUpstream(request.name),
        Change::AddModel(request) => {
            let (id, change) = given::new_model(request.model)?;
            CatalogueChange::AddModel(id, change)
        }
        Change::UpdateModel(request) => {
            let (id, change) = given::model_change(request)?;
            CatalogueChange::UpdateModel(id, change)
        }
        Change::RemoveModel(request) => CatalogueChange::RemoveModel(request.id),
        Change::PutPlan(request) => CatalogueChange::PutPlan(given::plan_wish(request.plan)?),
    })
}

fn title(change: &Change) -> String {
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
