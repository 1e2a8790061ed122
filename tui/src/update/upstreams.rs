//! Actions on the upstreams screen.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::upstreams::{Deadlines, Profile, Upstream};
use crate::model::{Action, Model};

use super::list;

/// Adds an upstream; edits, tests, resets or removes the selected one.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let current = model.data.upstreams.current().cloned();
    let form = match (action, current) {
        (Action::New, _) => {
            let name = Field::text("name", "such as `local`", "").required();
            form("New upstream", FormKind::AddUpstream, name, &Upstream::default())
        }
        (Action::Modify, Some(upstream)) => {
            let kind = FormKind::EditUpstream(Box::new(upstream.clone()));
            let name = Field::fixed("name", upstream.name.as_str());
            form("Edit upstream", kind, name, &upstream)
        }
        (Action::TestUpstream, Some(upstream)) => {
            model.set_success(format!("testing `{}`…", upstream.name));
            return vec![Effect::Change(Change::TestUpstream { name: upstream.name })];
        }
        (Action::ResetUpstream, Some(upstream)) => {
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Let requests go to `{}` again?", upstream.name),
                consequence:
                    "Its breaker closes, and the pauses of its credentials and failed checks \
                    are forgotten, on this gateway only. What fails again counts again."
                        .into(),
                change: Change::ResetUpstream { name: upstream.name },
            }));
            return Vec::new();
        }
        (Action::Remove, Some(upstream)) => {
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Remove upstream `{}`?", upstream.name),
                consequence: "Its stored credential goes, too. No model may be deployed on it."
                    .into(),
                change: Change::RemoveUpstream { name: upstream.name },
            }));
            return Vec::new();
        }
        (action, _) => return list::copy_id(model, action),
    };
    model.overlay = Some(Overlay::Form(Box::new(form)));
    Vec::new()
}

fn form(title: &str, kind: FormKind, name: Field, upstream: &Upstream) -> Form {
    let timeout = |label, hint, milliseconds: Option<u64>| {
        Field::text(label, hint, milliseconds.map_or_else(String::new, |it| it.to_string()))
    };
    let Deadlines { connect_ms, first_byte_ms, idle_ms, total_ms } = upstream.deadlines;
    let fields = vec![
        name,
        Field::text("URL", "http://HOST:PORT/v1, or `sim:`", upstream.url.as_str()).required(),
        Field::choice("profile", Profile::NAMES, upstream.profile.name()),
        Field::text("key variable", "a variable of the gateway that holds its key", ""),
        Field::text("key file", "or a file on the gateway's host", ""),
        Field::masked("key", "or the key itself, stored sealed"),
        timeout("connect ms", "10000 by default: connection and TLS", connect_ms),
        timeout("first byte ms", "600000 by default: until the response head", first_byte_ms),
        timeout("idle ms", "300000 by default: between two pieces", idle_ms),
        timeout("total ms", "none by default: the whole answer", total_ms),
    ];
    Form::new(title, kind, fields)
}
