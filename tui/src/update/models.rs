//! Actions on the models screen. Only operators may change the catalogue.

use secrecy::SecretString;

use crate::effect::Effect;
use crate::model::catalogue::CatalogueModel;
use crate::model::change::Change;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::picker::Known;
use crate::model::{Action, Model};

use super::{route, trial};

/// Adds a model; edits or removes the selected one, or copies commands for it.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    if action == Action::Explain {
        if model.allows(action) {
            return route::open(model);
        }
        model.set_problem("only support and operators see how requests are routed");
        return Vec::new();
    }
    if !model.allows(action) {
        model.set_problem("only operators can change the catalogue");
        return Vec::new();
    }
    if action == Action::Try {
        trial::open(model);
        return Vec::new();
    }
    let current = model.data.models.current().cloned();
    match (action, current) {
        (Action::Copy, Some(entry)) => {
            let text = entry.curl(model.base_url.as_str()).join("\n");
            copy(model, text, "a curl command was sent to the terminal's clipboard")
        }
        (Action::CopyAgent, Some(entry)) => {
            let text = entry.agent_config(model.base_url.as_str()).join("\n");
            let what = "the command that writes the configuration";
            copy(model, text, &format!("{what} was sent to the terminal's clipboard"))
        }
        (Action::New, _) => {
            let id = Field::text("id", "the model id in requests, such as `llama`", "").required();
            open(model, form("New model", FormKind::AddModel, id, &CatalogueModel::default()))
        }
        (Action::Modify, Some(entry)) => {
            let id = Field::fixed("id", entry.id.as_str());
            let form = form("Edit model", FormKind::EditModel(Box::new(entry.clone())), id, &entry);
            open(model, form)
        }
        (Action::Remove, Some(entry)) => {
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Remove model `{}`?", entry.id),
                consequence: "The next request for it is refused. Its records stay.".into(),
                change: Change::RemoveModel { id: entry.id },
            }));
            Vec::new()
        }
        _ => Vec::new(),
    }
}

fn copy(model: &mut Model, text: String, notice: &str) -> Vec<Effect> {
    model.set_success(notice);
    vec![Effect::Copy(SecretString::from(text))]
}

fn open(model: &mut Model, form: Form) -> Vec<Effect> {
    model.overlay = Some(Overlay::Form(Box::new(form)));
    Vec::new()
}

fn form(title: &str, kind: FormKind, id: Field, entry: &CatalogueModel) -> Form {
    let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    let amount = |amount: &Option<String>| amount.clone().unwrap_or_default();
    let fields = vec![
        id,
        Field::text(
            "served by",
            "UPSTREAM:MODEL, or UPSTREAM if it has that id",
            entry.deployments_text(),
        )
        .offering(Known::Deployments)
        .required(),
        Field::text("display name", "what people call it", entry.display_name.as_str()),
        Field::text("context", "in tokens, such as 128k; empty if unknown", number(entry.context)),
        Field::text("max output", "in tokens; empty if unknown", number(entry.max_output)),
        Field::text("input $/M", "US dollars; empty for free", amount(&entry.price.input_usd)),
        Field::text("cached $/M", "empty for that of input", amount(&entry.price.cached_usd)),
        Field::text("output $/M", "US dollars; empty for free", amount(&entry.price.output_usd)),
        Field::text(
            "requests/min",
            "over all accounts; empty for no limit",
            number(entry.limits.rpm),
        ),
        Field::text("tokens/min", "such as 200k; empty for no limit", number(entry.limits.tpm)),
    ];
    Form::new(title, kind, fields)
}
