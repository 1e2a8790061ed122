//! Actions on the accounts screen.

use crate::effect::Effect;
use crate::model::accounts::{AccountStatus, Role};
use crate::model::change::Change;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::picker::Known;
use crate::model::{Action, Model};

use super::list;

/// Credits, suspends or resumes the selected account, or changes its plan or role. While accounts
/// are marked, only what applies to all of them is done.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let Some(account) = model.data.accounts.current().cloned() else { return Vec::new() };
    let marked = model.data.accounts.marked().len();
    if marked > 0 && !matches!(action, Action::ToggleSuspension | Action::Copy) {
        model.set_problem(format!(
            "that changes one account (marked: {marked}): Esc takes the marks away"
        ));
        return Vec::new();
    }
    let name = account.name;
    let form = match action {
        Action::Credit => {
            let fields = vec![
                Field::fixed("account", name.as_str()),
                Field::text("amount", "US dollars; negative takes away", "").required(),
                Field::text("reason", "kept with the ledger entry", "").required(),
            ];
            Form::new("Credit", FormKind::Credit(name), fields)
        }
        Action::SetPlan => {
            let fields = vec![
                Field::fixed("account", name.as_str()),
                Field::text("plan", "the name of a plan", account.plan.unwrap_or_default())
                    .required()
                    .offering(Known::Plan),
            ];
            Form::new("Plan", FormKind::SetPlan(name), fields)
        }
        Action::Rename => {
            let fields = vec![
                Field::fixed("account", name.as_str()),
                Field::text("new name", "its id stays", "").required(),
            ];
            Form::new("Rename", FormKind::Rename(name), fields)
        }
        Action::Remove if account.status == AccountStatus::Closed => {
            let fields = vec![
                Field::fixed("account", name.as_str()),
                Field::text("name again", "its personal data is deleted permanently", "")
                    .required(),
            ];
            Form::new("Delete account", FormKind::DeleteAccount(name), fields)
        }
        Action::Remove | Action::ResetPassword => {
            if account.status == AccountStatus::Deleted {
                model.set_problem(format!("`{name}` was deleted"));
                return Vec::new();
            }
            model.overlay = Some(Overlay::Confirm(access_question(name, action)));
            return Vec::new();
        }
        Action::Grant => {
            let role = account.role.map_or("member", Role::as_str);
            let fields = vec![
                Field::fixed("account", name.as_str()),
                Field::choice("role", Role::NAMES, role),
            ];
            Form::new("Role", FormKind::GrantRole(name), fields)
        }
        Action::ToggleSuspension if !model.data.accounts.marked().is_empty() => {
            return suspend_marked(model);
        }
        Action::ToggleSuspension if account.status != AccountStatus::Active => {
            let consequence = match account.status {
                AccountStatus::Deleted => {
                    model.set_problem(format!("`{name}` was deleted and cannot be used"));
                    return Vec::new();
                }
                AccountStatus::Closed => "It can sign in again. Its keys stay revoked.",
                AccountStatus::Active | AccountStatus::Suspended => {
                    "Its keys work from the next request on."
                }
            };
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Let `{name}` be used again?"),
                consequence: consequence.into(),
                change: Change::Resume { account: name },
            }));
            return Vec::new();
        }
        Action::ToggleSuspension if is_own(model, &name) => {
            model.set_problem(format!("`{name}` is your own account, and you could not resume it"));
            return Vec::new();
        }
        Action::ToggleSuspension => suspension(vec![name]),
        action => return list::copy_id(model, action),
    };
    model.overlay = Some(Overlay::Form(Box::new(form)));
    Vec::new()
}

/// Returns the question before an account is closed or its password reset.
fn access_question(account: String, action: Action) -> Confirm {
    if action == Action::Remove {
        return Confirm {
            question: format!("Close `{account}`?"),
            consequence: "Its sessions end and its keys are revoked. Its balance stays.".into(),
            change: Change::CloseAccount { account },
        };
    }
    Confirm {
        question: format!("Create a code for a new password of `{account}`?"),
        consequence: "Until it is used, the old password stays valid.".into(),
        change: Change::ResetPassword { account },
    }
}

/// Asks why to suspend the marked accounts that are not suspended yet.
fn suspend_marked(model: &mut Model) -> Vec<Effect> {
    let accounts = model.data.accounts.marked().into_iter();
    let active = accounts.filter(|it| it.status == AccountStatus::Active);
    let names: Vec<_> = active.map(|account| account.name.clone()).collect();
    if names.is_empty() {
        model.set_problem("no marked account is active: Esc takes the marks away");
    } else if let Some(own) = names.iter().find(|name| is_own(model, name)) {
        let reason = "you could not resume it: Space takes its mark away";
        model.set_problem(format!("`{own}` is your own account, and {reason}"));
    } else {
        model.overlay = Some(Overlay::Form(Box::new(suspension(names))));
    }
    Vec::new()
}

/// Returns whether this is the signed-in account.
fn is_own(model: &Model, name: &str) -> bool {
    model.data.account.value.as_ref().is_some_and(|account| account.name == name)
}

/// Returns the form that suspends these accounts.
fn suspension(names: Vec<String>) -> Form {
    let fields = vec![
        Field::fixed("account", names.join(", ")),
        Field::text("reason", "the account sees it", "").required(),
    ];
    let title = match names.len() {
        1 => "Suspend".to_owned(),
        count => format!("Suspend {count} accounts"),
    };
    Form::new(title, FormKind::Suspend(names), fields)
}
