//! Actions on the plans screen.

use crate::effect::Effect;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::Overlay;
use crate::model::picker::Known;
use crate::model::plans::Plan;
use crate::model::{Action, Model};

use super::form::OBSERVE;

/// The options for requests above the limits.
const ABOVE: &[&str] = &["refuse", OBSERVE];

/// Opens the form to create a plan or to edit the selected one.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let (title, name, plan) = match (action, model.data.plans.current()) {
        (Action::New, _) => {
            ("New plan", Field::text("name", "such as `team`", "").required(), Plan::default())
        }
        (Action::Modify, Some(plan)) => {
            ("Edit plan", Field::fixed("name", plan.name.as_str()), plan.clone())
        }
        _ => return Vec::new(),
    };
    let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    let limits = plan.limits;
    let fields = vec![
        name,
        Field::text(
            "trial credit",
            "US dollars, given once",
            plan.trial_credit_usd.unwrap_or_default(),
        )
        .required(),
        Field::text("requests/min", "empty for no limit", number(limits.rpm)),
        Field::text("tokens/min", "such as 200k; empty for no limit", number(limits.tpm)),
        Field::text(
            "concurrency",
            "requests at once; empty for no limit",
            number(limits.concurrency),
        ),
        Field::text("tokens/month", "empty for no limit", number(limits.monthly_tokens)),
        Field::text(
            "keys",
            "usable keys per account; empty for 100",
            number(plan.max_keys.map(Into::into)),
        ),
        Field::choice("above them", ABOVE, ABOVE[usize::from(limits.observe)]),
        Field::text("models", "ids with commas between; empty for all", plan.models.join(", "))
            .offering(Known::Models),
    ];
    let is_new = action == Action::New;
    let form = Form::new(title, FormKind::PutPlan { is_new }, fields);
    model.overlay = Some(Overlay::Form(Box::new(form)));
    Vec::new()
}
