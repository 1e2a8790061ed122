//! Tests of what forms require.

use super::super::form::effect;
use super::super::{accounts, invites, keys, models, people, plans, shell, upstreams};
use super::*;
use crate::model::Action;
use crate::model::catalogue::CatalogueModel;
use crate::model::form::{FieldKind, Form};
use crate::model::plans::Plan;
use crate::model::sign_in::SignIn;
use crate::model::upstreams::{Deadlines, Upstream};

/// Returns the forms that these actions open.
fn forms(role: Role, act: fn(&mut Model, Action) -> Vec<Effect>, actions: &[Action]) -> Vec<Form> {
    let name = || "known".to_owned();
    let open = |action: &Action| {
        let mut model = signed_in(role);
        load(&mut model, Loaded::Keys(vec![key("k1")]));
        load(&mut model, Loaded::Accounts(vec![account("bob", Role::Member)]));
        load(&mut model, Loaded::Plans(vec![Plan { name: name(), ..Plan::default() }]));
        load(
            &mut model,
            Loaded::Models(vec![CatalogueModel { id: name(), ..CatalogueModel::default() }]),
        );
        load(&mut model, Loaded::Upstreams(vec![Upstream { name: name(), ..Upstream::default() }]));
        act(&mut model, *action);
        match model.overlay.take() {
            Some(Overlay::Form(form)) => *form,
            other => panic!("{action:?} opens no form: {other:?}"),
        }
    };
    actions.iter().map(open).collect()
}

/// Returns a valid text for a field that must not be empty.
fn text(label: &str) -> &'static str {
    match label {
        "valid for" => "7d",
        "amount" | "trial credit" => "5",
        "served by" => "local:llama",
        "name again" => "bob",
        _ => "long enough",
    }
}

#[test]
fn the_marked_fields_are_those_without_which_a_form_is_refused() {
    let mut all = vec![SignIn::sign_in(""), SignIn::register("")];
    all.extend(forms(Role::Owner, keys::act, &[Action::New, Action::Modify, Action::Rotate]));
    all.extend(forms(Role::Owner, models::act, &[Action::New, Action::Modify]));
    all.extend(forms(Role::Owner, plans::act, &[Action::New, Action::Modify]));
    all.extend(forms(Role::Owner, upstreams::act, &[Action::New, Action::Modify]));
    all.extend(forms(Role::Owner, invites::act, &[Action::New]));
    let of_account = [Action::Credit, Action::SetPlan, Action::Rename, Action::ToggleSuspension];
    all.extend(forms(Role::Owner, accounts::act, &of_account));
    let on_people = |model: &mut Model, action| {
        model.screen = Screen::People;
        people::act(model, action)
    };
    all.extend(forms(Role::Member, on_people, &[Action::New]));
    let in_shell = |model: &mut Model, action| shell::act(model, action).unwrap_or_default();
    all.extend(forms(Role::Member, in_shell, &[Action::Password]));
    for mut form in all {
        for field in &mut form.fields {
            if matches!(field.kind, FieldKind::Text | FieldKind::Masked) {
                field.input = "".into();
            }
        }
        let mut refused = Vec::new();
        while let Err((label, problem)) = effect(&form) {
            assert!(!refused.contains(&label), "{}: {label}: {problem}", form.title);
            let field = form.fields.iter_mut().find(|it| it.label == label).unwrap();
            field.input = text(label).into();
            refused.push(label);
        }
        let marked = form.fields.iter().filter(|field| field.is_required);
        let mut marked: Vec<_> = marked.map(|field| field.label).collect();
        marked.sort_unstable();
        refused.sort_unstable();
        assert_eq!(marked, refused, "{}", form.title);
    }
}

#[test]
fn the_form_of_an_upstream_sends_the_timeouts_that_changed() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('7'));
    let deadlines =
        Deadlines { connect_ms: Some(2_000), idle_ms: Some(9_000), ..Deadlines::default() };
    let (name, url) = ("local".to_owned(), "http://127.0.0.1:8000/v1".to_owned());
    load(
        &mut model,
        Loaded::Upstreams(vec![Upstream { name, url, deadlines, ..Upstream::default() }]),
    );
    press(&mut model, KeyCode::Char('e'));
    let Some(Overlay::Form(form)) = &mut model.overlay else { panic!("no form") };
    assert_eq!((form.text("connect ms"), form.text("first byte ms")), ("2000", ""));
    for (label, text) in [("connect ms", ""), ("total ms", "60k")] {
        let field = form.fields.iter_mut().find(|it| it.label == label).unwrap();
        field.input = text.to_owned().into();
    }
    let requested = change(&press(&mut model, KeyCode::Enter));
    let deadlines =
        Deadlines { connect_ms: Some(0), total_ms: Some(60_000), ..Deadlines::default() };
    assert!(requested.contains(&format!("deadlines: {deadlines:?}")), "{requested}");
}
