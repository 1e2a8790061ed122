//! Tests of the hint for a new user.

use serde_json::json;

use super::*;
use crate::model::first_steps::{FirstSteps, Step, step};
use crate::model::kept;
use crate::model::record::{LogBatch, Record};

/// Returns a new user's model before any data.
fn newcomer() -> Model {
    let mut model = signed_in(Role::Member);
    model.first_steps = FirstSteps::Pending;
    model
}

fn log(model: &mut Model, count: usize) {
    let records = vec![Record::default(); count];
    let batch = LogBatch { restarted: true, records, dropped: 0, live: true };
    update(model, Message::LogReceived(batch));
}

#[test]
fn a_newcomer_is_led_from_the_key_to_the_log() {
    let mut model = newcomer();
    assert_eq!(step(&model), None, "nothing is known yet");
    log(&mut model, 0);
    assert_eq!(step(&model), None);
    load(&mut model, Loaded::Keys(Vec::new()));
    assert_eq!(step(&model), Some(Step::MakeKey));
    load(&mut model, Loaded::Keys(vec![key("k1")]));
    assert_eq!(step(&model), Some(Step::TryModel));
    log(&mut model, 1);
    assert_eq!(step(&model), Some(Step::SeeLog));
    press(&mut model, KeyCode::Char('4'));
    assert_eq!((step(&model), model.first_steps), (None, FirstSteps::Done));
    assert_eq!(kept::of(&model)["introduced"], json!(["http://127.0.0.1:8081"]));
}

#[test]
fn an_account_with_requests_sees_no_hint() {
    let mut model = newcomer();
    load(&mut model, Loaded::Keys(Vec::new()));
    log(&mut model, 1);
    assert_eq!(model.first_steps, FirstSteps::Done);
}

#[test]
fn the_hint_ends_with_the_session() {
    let mut model = newcomer();
    log(&mut model, 0);
    load(&mut model, Loaded::Keys(Vec::new()));
    assert_eq!(step(&model), Some(Step::MakeKey));
    update(&mut model, Message::SignedOut("again".to_owned()));
    update(&mut model, Message::TokenFound("another token".into()));
    log(&mut model, 1);
    assert_eq!((step(&model), model.first_steps), (None, FirstSteps::Done));
}

#[test]
fn the_hint_can_be_dismissed() {
    let mut model = newcomer();
    log(&mut model, 0);
    load(&mut model, Loaded::Keys(Vec::new()));
    model.introduced_servers = vec!["http://127.0.0.1:1".to_owned()];
    assert_eq!(kept::of(&model)["introduced"], json!(["http://127.0.0.1:1"]), "of another one");
    press(&mut model, KeyCode::Char('H'));
    assert_eq!((step(&model), model.first_steps), (None, FirstSteps::Done));
    load(&mut model, Loaded::Keys(Vec::new()));
    assert_eq!(step(&model), None);
}
