//! `GET /v1/models` and `GET /v1/models/{id}`.
//!
//! For Codex, the list contains the entries that it decodes as well (`codex.rs`).

use http::Response;
use serde::Serialize;

use super::body::Reply;
use super::{codex, respond};
use crate::pipeline::AppState;
use crate::pipeline::admit;
use crate::pipeline::authenticate::Principal;
use domain::model::Model;
use domain::refusal::Refusal;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Vec<codex::Entry<'a>>>,
}

#[derive(Serialize)]
struct Item<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
}

/// Lists the models that this principal may use.
pub(super) fn list(app: &AppState, principal: &Principal, query: Option<&str>) -> Response<Reply> {
    let catalogue = app.directory.catalogue();
    let usable = || admit::usable_models(&catalogue, principal).map(|model| &**model);
    let data = usable().map(Item::of).collect();
    let models = codex::is_codex(query).then(|| codex::entries(usable()));
    json(&List { object: "list", data, models })
}

/// Describes one model.
pub(super) fn retrieve(
    app: &AppState,
    principal: &Principal,
    name: &str,
) -> Result<Response<Reply>, Refusal> {
    let model = admit::find_model(app, principal, name)?;
    Ok(json(&Item::of(&model)))
}

impl<'a> Item<'a> {
    fn of(model: &'a Model) -> Self {
        Self {
            id: model.id.as_str(),
            object: "model",
            created: model.created_at.as_second(),
            owned_by: "tollgate",
        }
    }
}

fn json(value: &impl Serialize) -> Response<Reply> {
    respond::json(serde_json::to_vec(value).expect("a list of strings always serialises"))
}
