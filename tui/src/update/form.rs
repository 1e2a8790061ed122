//! Actions in forms, and the validation and submission of their fields.

use secrecy::ExposeSecret;
use tui_input::InputRequest;

use crate::effect::Effect;
use crate::model::accounts::Role;
use crate::model::catalogue::{CatalogueModel, Deployment, Price};
use crate::model::change::{Change, CredentialDraft, KeyEnd, UpstreamDraft};
use crate::model::command_line::command_line;
use crate::model::form::{FieldKind, Form, FormKind};
use crate::model::keys::Key;
use crate::model::money::{cost_at, short_dollars};
use crate::model::overlay::Overlay;
use crate::model::people::PersonRole;
use crate::model::picker::Picker;
use crate::model::plans::{Limits, Plan};
use crate::model::sign_in::{AGAIN, INVITE, NAME, PASSWORD};
use crate::model::upstreams::{Deadlines, Profile};
use crate::model::{Action, Model};

use super::parse::{FieldError, amount, duration, number, optional_amount, required};
use super::{jump, operations, picker};

/// The option to serve requests above the limits and note them.
pub(super) const OBSERVE: &str = "serve and note";

/// Edits, submits or closes a form above a screen.
pub(super) fn act(model: &mut Model, mut form: Box<Form>, action: Action) -> Vec<Effect> {
    let is_picking = picker::act(&model.data, &mut form, action);
    // These forms ask for no change.
    let submitted = match (action, &form.kind) {
        _ if is_picking => None,
        (Action::Submit, FormKind::Jump) => Some(jump::submit(model, &form).map(|()| Vec::new())),
        (Action::Submit, FormKind::Operation(kind)) => {
            Some(operations::submit(model, &form, *kind))
        }
        _ => None,
    };
    match submitted {
        Some(Ok(effects)) => return effects,
        Some(Err((label, problem))) => {
            form.reject_field(label, &problem);
            model.overlay = Some(Overlay::Form(form));
            return Vec::new();
        }
        None => {}
    }
    let effects = match action {
        _ if is_picking => Vec::new(),
        Action::Back => return Vec::new(),
        Action::Submit => send(&mut form).into_iter().collect(),
        Action::CopyCommand => {
            if form.command.is_some() {
                model.set_success("the command was sent to the terminal's clipboard");
            } else {
                model.set_problem("ctl has no command for what the fields say so far");
            }
            form.command.clone().map(|command| Effect::Copy(command.into())).into_iter().collect()
        }
        action => {
            edit(&mut form, action);
            Vec::new()
        }
    };
    model.overlay = Some(Overlay::Form(form));
    effects
}

/// Updates what the open form says about the change that its fields describe.
pub(super) fn refresh(model: &mut Model) {
    if let Some(Overlay::Form(mut form)) =
        model.overlay.take_if(|it| matches!(it, Overlay::Form(_)))
    {
        form.command = command(&form);
        form.preview = preview(model, &form);
        model.overlay = Some(Overlay::Form(form));
    }
}

/// Returns the `ctl` command that does the same as the form, if its fields are valid.
fn command(form: &Form) -> Option<String> {
    if let FormKind::Operation(kind) = form.kind {
        return operations::command(form, kind);
    }
    match effect(form) {
        // `ctl` refuses a command that changes nothing.
        Ok(Effect::Change(Change::UpdateKey { before, after, end: None })) if before == after => {
            None
        }
        Ok(Effect::Change(Change::UpdateModel { before, after })) if before == after => None,
        Ok(Effect::Change(change)) => command_line(&change),
        _ => None,
    }
}

/// Returns what the form would mean, as far as that is known.
fn preview(model: &Model, form: &Form) -> Option<String> {
    match form.kind {
        FormKind::Operation(kind) => operations::preview(kind),
        _ => price_preview(model, form),
    }
}

/// Returns what the requests of the last 30 days would cost at the prices in the form, if these
/// differ from the current ones.
fn price_preview(model: &Model, form: &Form) -> Option<String> {
    let FormKind::EditModel(before) = &form.kind else { return None };
    let after = catalogue_model(form, CatalogueModel::clone(before)).ok()?;
    if after.price == before.price {
        return None;
    }
    let month = model.data.overview.month.value.as_ref()?;
    let (_, totals) = month.by_model.iter().find(|(id, _)| *id == before.id)?;
    let [now, then] = [&before.price, &after.price].map(|price| cost_at(&totals.tokens, price));
    let (now, then) = (short_dollars(now?), short_dollars(then?));
    Some(format!("the last 30 days at these prices: {then} instead of {now}"))
}

/// Moves between fields and edits the focused one. Does nothing while the form is submitting.
pub(super) fn edit(form: &mut Form, action: Action) {
    if form.is_submitting {
        return;
    }
    match action {
        Action::Field(steps) | Action::Pick(steps) => form.move_focus(steps),
        Action::Type(request) => {
            let Some(field) = form.fields.get_mut(form.current) else { return };
            match (field.kind, request) {
                (FieldKind::Choice(_), InputRequest::GoToPrevChar) => field.choose(-1),
                (
                    FieldKind::Choice(_),
                    InputRequest::GoToNextChar | InputRequest::InsertChar(' '),
                ) => {
                    field.choose(1);
                }
                (FieldKind::Choice(_) | FieldKind::Fixed, _) => {}
                (FieldKind::Text | FieldKind::Masked, request) => {
                    let change = field.input.handle(request);
                    if change.is_some_and(|it| it.value) {
                        form.picker = Picker { is_filtering: true, ..Picker::default() };
                    }
                }
            }
        }
        _ => {}
    }
}

/// Submits the form if all fields are valid. Otherwise moves the focus to the invalid field; shows
/// the problem only if the field already had the focus or contains text.
pub(super) fn send(form: &mut Form) -> Option<Effect> {
    if form.is_submitting {
        return None;
    }
    match effect(form) {
        Ok(effect) => {
            form.is_submitting = true;
            form.picker = Picker::default();
            form.problem = None;
            Some(effect)
        }
        Err((label, problem)) => {
            let field = form.fields.get(form.current);
            let had_focus = field.is_some_and(|field| field.label == label);
            let has_text = form.field(label).is_some_and(|field| !field.input.value().is_empty());
            form.reject_field(label, &problem);
            if !had_focus && !has_text {
                form.problem = None;
                form.picker = Picker::default();
            }
            None
        }
    }
}

pub(super) fn effect(form: &Form) -> Result<Effect, FieldError> {
    let change = match form.kind.clone() {
        FormKind::SignIn => {
            let name = required(form, NAME, "type the name of your account")?;
            required(form, PASSWORD, "type your password")?;
            return Ok(Effect::SignIn { name, password: form.secret(PASSWORD) });
        }
        FormKind::Register => {
            let name = required(form, NAME, "type a name or an e-mail address")?;
            new_password(form, PASSWORD)?;
            let invite = form.text(INVITE).to_owned();
            return Ok(Effect::Register { name, password: form.secret(PASSWORD), invite });
        }
        FormKind::ChangePassword => {
            required(form, "old password", "type the current password")?;
            new_password(form, "new password")?;
            Change::ChangePassword {
                old: form.secret("old password"),
                new: form.secret("new password"),
            }
        }
        FormKind::Jump => return Err(("before", "a time".to_owned())),
        FormKind::Operation(_) => return Err(("file", "a path".to_owned())),
        FormKind::CreateKey => Change::CreateKey {
            label: required(form, "label", "type what to call it")?,
            limits: limits(form)?,
            spend_cap_usd: optional_amount(form, "spending cap")?,
            models: form.parts("models"),
            expires_in_seconds: duration(form, "ends after", 86_400)?,
        },
        FormKind::EditKey(before) => edited_key(form, before)?,
        FormKind::Rename(account) => {
            Change::RenameAccount { account, name: required(form, "new name", "type a name")? }
        }
        FormKind::DeleteAccount(account) => {
            let typed = required(form, "name again", "type its name, because it cannot be undone")?;
            if typed != account {
                return Err(("name again", format!("type `{account}`")));
            }
            Change::DeleteAccount { account }
        }
        FormKind::AddPerson(account) => Change::AddPerson {
            account,
            name: required(form, "name", "type a name or an e-mail address")?,
            role: person_role(form)?,
        },
        FormKind::SetPersonRole(name) => Change::SetPersonRole { name, role: person_role(form)? },
        FormKind::CreateInvite => Change::CreateInvite {
            ttl_seconds: duration(form, "valid for", 86_400)?
                .ok_or_else(|| ("valid for", "a duration, such as 48h or 7d".to_owned()))?,
            plan: form.text("plan").to_owned(),
            credit_usd: optional_amount(form, "credit")?,
        },
        FormKind::RotateKey(id) => {
            let overlap = duration(form, "overlap", 3_600)?;
            Change::RotateKey { id, overlap_seconds: overlap.unwrap_or(0) }
        }
        FormKind::Credit(account) => Change::Credit {
            account,
            amount_usd: amount(form, "amount")?,
            reason: required(form, "reason", "type why: it is kept with the entry")?,
        },
        FormKind::Suspend(accounts) => {
            let reason = required(form, "reason", "type why: the account will see it")?;
            let suspend = |account| Change::Suspend { account, reason: reason.clone() };
            Change::Batch(accounts.into_iter().map(suspend).collect())
        }
        FormKind::SetPlan(account) => {
            Change::SetPlan { account, plan: required(form, "plan", "type the name of a plan")? }
        }
        FormKind::GrantRole(account) => {
            let unknown = || ("role", "choose a role".to_owned());
            Change::GrantRole { account, role: Role::parse(form.text("role")).ok_or_else(unknown)? }
        }
        FormKind::PutPlan { is_new } => {
            let plan = Plan {
                name: required(form, "name", "type its name")?,
                trial_credit_usd: Some(amount(form, "trial credit")?),
                limits: limits(form)?,
                max_keys: max_keys(form)?,
                models: form.parts("models"),
            };
            Change::PutPlan { plan, is_new }
        }
        FormKind::AddModel => {
            Change::AddModel(Box::new(catalogue_model(form, CatalogueModel::default())?))
        }
        FormKind::EditModel(before) => {
            let after = Box::new(catalogue_model(form, CatalogueModel::clone(&before))?);
            Change::UpdateModel { before, after }
        }
        FormKind::AddUpstream => Change::AddUpstream(upstream(form, Deadlines::default())?),
        FormKind::EditUpstream(before) => Change::UpdateUpstream(upstream(form, before.deadlines)?),
    };
    Ok(Effect::Change(change))
}

fn person_role(form: &Form) -> Result<PersonRole, FieldError> {
    let role = PersonRole::parse(form.text("role"));
    role.ok_or_else(|| ("role", "choose a role".to_owned()))
}

fn new_password(form: &Form, label: &'static str) -> Result<(), FieldError> {
    let value = |label| form.field(label).map_or("", |field| field.input.value());
    let password = value(label);
    if password.len() < 8 {
        return Err((label, "eight characters at least: type a longer one".to_owned()));
    }
    if value(AGAIN) != password {
        return Err((AGAIN, "the passwords are not the same: type it once more".to_owned()));
    }
    Ok(())
}

fn limits(form: &Form) -> Result<Limits, FieldError> {
    Ok(Limits {
        rpm: number(form, "requests/min")?,
        tpm: number(form, "tokens/min")?,
        concurrency: number(form, "concurrency")?,
        monthly_tokens: number(form, "tokens/month")?,
        observe: form.text("above them") == OBSERVE,
    })
}

/// Applies the form to `before`.
fn edited_key(form: &Form, before: Box<Key>) -> Result<Change, FieldError> {
    let end = match form.text("ends after") {
        "" => None,
        "never" => Some(KeyEnd::Never),
        _ => duration(form, "ends after", 86_400)?.map(KeyEnd::After),
    };
    let limits = Limits { observe: before.limits.observe, ..limits(form)? };
    let after = Key {
        label: required(form, "label", "type what to call it")?,
        limits,
        spend_cap_usd: optional_amount(form, "spending cap")?,
        models: form.parts("models"),
        ..Key::clone(&before)
    };
    Ok(Change::UpdateKey { before, after: Box::new(after), end })
}

fn max_keys(form: &Form) -> Result<Option<u32>, FieldError> {
    // A number beyond the type is one that the gateway refuses.
    Ok(number(form, "keys")?.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
}

/// Applies the form to `before`. Properties without a field keep their values.
fn catalogue_model(form: &Form, before: CatalogueModel) -> Result<CatalogueModel, FieldError> {
    Ok(CatalogueModel {
        id: required(form, "id", "type the model id that requests use")?,
        deployments: deployments(form, &before)?,
        display_name: form.text("display name").to_owned(),
        context: number(form, "context")?,
        max_output: number(form, "max output")?,
        price: Price {
            input_usd: optional_amount(form, "input $/M")?,
            cached_usd: optional_amount(form, "cached $/M")?,
            output_usd: optional_amount(form, "output $/M")?,
            version: before.price.version,
        },
        limits: Limits {
            rpm: number(form, "requests/min")?,
            tpm: number(form, "tokens/min")?,
            ..before.limits
        },
        ..before
    })
}

/// Parses the deployments. Existing ones keep their weight and priority.
fn deployments(form: &Form, before: &CatalogueModel) -> Result<Vec<Deployment>, FieldError> {
    let hint = "UPSTREAM:MODEL, such as `local:qwen3-32b`, with commas between several";
    required(form, "served by", hint)?;
    let keep_settings = |read: Deployment| {
        let same = |it: &&Deployment| it.upstream == read.upstream && it.model == read.model;
        before.deployments.iter().find(same).cloned().unwrap_or(read)
    };
    let parts = form.parts("served by").into_iter();
    let read = parts.map(|part| Deployment::parse(&part).map(keep_settings));
    read.collect::<Option<_>>().ok_or_else(|| ("served by", hint.to_owned()))
}

fn upstream(form: &Form, before: Deadlines) -> Result<UpstreamDraft, FieldError> {
    let name = required(form, "name", "type its name")?;
    let url = required(form, "URL", "type its base URL, such as http://127.0.0.1:8000/v1")?;
    let profile = Profile::find(form.text("profile")).unwrap_or_default();
    let variable = form.text("key variable").to_owned();
    let file = form.text("key file").to_owned();
    let secret = form.secret("key");
    let credential = if !variable.is_empty() {
        Some(CredentialDraft::Variable(variable))
    } else if !file.is_empty() {
        Some(CredentialDraft::File(file))
    } else if !secret.expose_secret().is_empty() {
        Some(CredentialDraft::Secret(secret))
    } else {
        None
    };
    let deadlines = Deadlines {
        connect_ms: number(form, "connect ms")?,
        first_byte_ms: number(form, "first byte ms")?,
        idle_ms: number(form, "idle ms")?,
        total_ms: number(form, "total ms")?,
    };
    let deadlines = deadlines.changed_from(before);
    Ok(UpstreamDraft { name, url, profile, credential, deadlines })
}
