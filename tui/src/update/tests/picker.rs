//! Tests of the values that fields of forms offer.

use super::*;
use crate::model::catalogue::{CatalogueModel, Deployment};
use crate::model::fetched::FetchState;
use crate::model::form::Form;
use crate::model::picker::{Offers, offers};
use crate::model::plans::Plan;
use crate::model::upstreams::Upstream;

/// Returns an operator's model on this screen, with plans, models and upstreams.
fn operator(screen: char) -> Model {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char(screen));
    let plan = |name: &str| Plan { name: name.to_owned(), ..Plan::default() };
    load(&mut model, Loaded::Plans(["free", "team", "trial"].map(plan).to_vec()));
    let entry = |id: &str| CatalogueModel {
        id: id.to_owned(),
        deployments: vec![Deployment {
            upstream: "local".to_owned(),
            model: format!("org/{id}"),
            weight: 1,
            priority: 0,
        }],
        ..CatalogueModel::default()
    };
    load(&mut model, Loaded::Models(["llama", "llama-big", "qwen"].map(entry).to_vec()));
    let upstream = Upstream { name: "local".to_owned(), ..Upstream::default() };
    load(&mut model, Loaded::Upstreams(vec![upstream]));
    load(&mut model, Loaded::Accounts(vec![account("bob", Role::Member)]));
    model
}

fn form(model: &Model) -> &Form {
    match &model.overlay {
        Some(Overlay::Form(form)) => form,
        other => panic!("no form: {other:?}"),
    }
}

fn offered(model: &Model) -> Vec<String> {
    let values = |offers: Offers<'_>| offers.rows.into_iter().map(|it| it.value).collect();
    offers(form(model), &model.data).map(values).unwrap_or_default()
}

#[test]
fn a_plan_is_chosen_from_all_of_them() {
    let mut model = operator('6');
    press(&mut model, KeyCode::Char('p'));
    assert_eq!(offered(&model), ["free", "team", "trial"], "the current one hides no other");
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "Enter takes it before it sends");
    assert_eq!(form(&model).text("plan"), "team");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert_eq!(requested, r#"SetPlan { account: "bob", plan: "team" }"#);
}

#[test]
fn typing_restricts_what_is_offered_and_other_text_stays() {
    let mut model = operator('6');
    press(&mut model, KeyCode::Char('p'));
    for _ in 0.."free".len() {
        press(&mut model, KeyCode::Backspace);
    }
    write(&mut model, "T");
    assert_eq!(offered(&model), ["team", "trial"]);
    write(&mut model, "omorrow");
    assert!(offered(&model).is_empty());
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert!(requested.contains(r#"plan: "Tomorrow""#), "the gateway decides: {requested}");
}

#[test]
fn several_models_are_chosen_one_after_another() {
    let mut model = operator('2');
    press(&mut model, KeyCode::Char('n'));
    write(&mut model, "laptop");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "q");
    press(&mut model, KeyCode::Tab);
    assert_eq!(form(&model).text("models"), "qwen", "Tab completes the only one");
    assert!(offered(&model).is_empty(), "no other is taken by accident");
    write(&mut model, ",");
    assert_eq!(offered(&model), ["llama", "llama-big"], "a chosen one is not offered again");
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Up);
    press(&mut model, KeyCode::Tab);
    assert_eq!(form(&model).parts("models"), ["qwen", "llama"]);
    write(&mut model, ",");
    press(&mut model, KeyCode::Tab);
    assert_eq!(form(&model).text("models"), "qwen,llama", "the field was left");
    assert_eq!(form(&model).fields[form(&model).current].label, "requests/min");
    let command = form(&model).command.as_deref();
    assert_eq!(command, Some("ctl key create laptop --model qwen --model llama"));
}

#[test]
fn a_name_that_begins_others_is_not_completed() {
    let mut model = operator('2');
    press(&mut model, KeyCode::Char('n'));
    press(&mut model, KeyCode::Tab);
    write(&mut model, "llama");
    press(&mut model, KeyCode::Tab);
    assert_eq!(form(&model).text("models"), "llama");
    assert_eq!(form(&model).fields[form(&model).current].label, "requests/min");
}

#[test]
fn a_deployment_is_chosen_by_upstream_or_by_what_it_serves() {
    let mut model = operator('3');
    press(&mut model, KeyCode::Char('n'));
    press(&mut model, KeyCode::Tab);
    let all = ["local", "local:org/llama", "local:org/llama-big", "local:org/qwen"];
    assert_eq!(offered(&model), all);
    write(&mut model, "qw");
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    assert_eq!(form(&model).parts("served by"), ["local:org/qwen"]);
    press(&mut model, KeyCode::Down);
    assert_eq!(form(&model).fields[form(&model).current].label, "display name");
    press(&mut model, KeyCode::Up);
    assert!(offered(&model).is_empty(), "a list with values offers others when asked for");
}

#[test]
fn a_problem_of_the_field_is_not_hidden_by_its_values() {
    let mut model = operator('6');
    press(&mut model, KeyCode::Char('p'));
    for _ in 0.."free".len() {
        press(&mut model, KeyCode::Backspace);
    }
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    let state = |model: &Model| (form(model).problem.is_some(), form(model).picker.is_hidden);
    assert_eq!(state(&model), (true, true));
    press(&mut model, KeyCode::Down);
    assert_eq!((form(&model).picker.selected, state(&model).1), (Some(0), false));
    press(&mut model, KeyCode::Up);
    press(&mut model, KeyCode::Enter);
    write(&mut model, "t");
    assert_eq!((offered(&model).len(), state(&model).1), (2, false));
}

#[test]
fn arrows_leave_a_field_above_its_values_and_escape_the_choice_first() {
    let mut model = operator('2');
    press(&mut model, KeyCode::Char('n'));
    press(&mut model, KeyCode::Down);
    let label = |model: &Model| form(model).fields[form(model).current].label;
    assert_eq!(label(&model), "models", "a field without values is left");
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Esc);
    assert_eq!((label(&model), form(&model).picker.selected), ("models", None));
    press(&mut model, KeyCode::Up);
    assert_eq!(label(&model), "label");
    press(&mut model, KeyCode::Esc);
    assert!(model.overlay.is_none());
}

#[test]
fn an_open_form_subscribes_to_what_its_fields_offer() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('6'));
    load(&mut model, Loaded::Accounts(vec![account("bob", Role::Member)]));
    let effects = press(&mut model, KeyCode::Char('p'));
    assert!(subscribed(&effects).topics.contains(&Topic::Plans));
    let fetch = |model: &Model| offers(form(model), &model.data).map(|it| it.fetch.clone());
    assert_eq!(fetch(&model), Some(FetchState::Loading));
    let failed = FetchState::Failed("locked".to_owned());
    update(&mut model, Message::NotLoaded(Topic::Plans, failed.clone()));
    assert_eq!(fetch(&model), Some(failed));
    let effects = press(&mut model, KeyCode::Esc);
    assert!(!subscribed(&effects).topics.contains(&Topic::Plans));
}
