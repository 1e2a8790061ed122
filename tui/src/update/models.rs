//! What the user can do with the catalogue; changing it is for operators.

use secrecy::SecretString;

use crate::effect::Effect;
use crate::model::catalogue::Offer;
use crate::model::change::Change;
use crate::model::form::{Field, Form, Purpose};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::{Action, Model};

/// Copies what one needs to use a model; adds one, changes or removes it.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    if !model.allows(action) {
        model.complain("the catalogue is changed by operators");
        return Vec::new();
    }
    let current = model.data.offers.current().cloned();
    match (action, current) {
        (Action::Copy, Some(offer)) => {
            let text = offer.curl(model.base_url.as_str()).join("\n");
            copy(model, text, "a curl command is in the clipboard")
        }
        (Action::CopyAgent, Some(offer)) => {
            let text = offer.agent_config(model.base_url.as_str()).join("\n");
            copy(model, text, "the command that writes the configuration is in the clipboard")
        }
        (Action::New, _) => {
            let id = Field::text("id", "what requests name it, such as `llama`", "");
            open(model, form("New model", Purpose::AddModel, id, &Offer::default()))
        }
        (Action::Modify, Some(offer)) => {
            let id = Field::fixed("id", offer.id.as_str());
            let form = form("Edit model", Purpose::EditModel(Box::new(offer.clone())), id, &offer);
            open(model, form)
        }
        (Action::Remove, Some(offer)) => {
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Remove model `{}`?", offer.id),
                consequence: "The next request for it is refused. Its records stay.".into(),
                change: Change::RemoveModel { id: offer.id },
            }));
            Vec::new()
        }
        _ => Vec::new(),
    }
}

fn copy(model: &mut Model, text: String, notice: &str) -> Vec<Effect> {
    model.say(notice);
    vec![Effect::Copy(SecretString::from(text))]
}

fn open(model: &mut Model, form: Form) -> Vec<Effect> {
    model.overlay = Some(Overlay::Form(Box::new(form)));
    Vec::new()
}

fn form(title: &str, purpose: Purpose, id: Field, offer: &Offer) -> Form {
    let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    let amount = |amount: &Option<String>| amount.clone().unwrap_or_default();
    let fields = vec![
        id,
        Field::text("served by", "UPSTREAM:MODEL, or UPSTREAM if it has that id", offer.places()),
        Field::text("display name", "what people call it", offer.display_name.as_str()),
        Field::text("context", "in tokens, such as 128k; empty if unknown", number(offer.context)),
        Field::text("max output", "in tokens; empty if unknown", number(offer.max_output)),
        Field::text("input $/M", "US dollars; empty for free", amount(&offer.price.input_usd)),
        Field::text("cached $/M", "empty for that of input", amount(&offer.price.cached_usd)),
        Field::text("output $/M", "US dollars; empty for free", amount(&offer.price.output_usd)),
        Field::text(
            "requests/min",
            "over all accounts; empty for no limit",
            number(offer.limits.rpm),
        ),
        Field::text("tokens/min", "such as 200k; empty for no limit", number(offer.limits.tpm)),
    ];
    Form::new(title, purpose, fields)
}
