//! The line that leads a new user to the first request, on screens and below overlays.

use tui::message::{Loaded, Message};
use tui::model::accounts::Role;
use tui::model::change::{ChangeOutcome, IssuedSecret, SecretKind};
use tui::model::first_steps::FirstSteps;
use tui::model::record::LogBatch;
use tui::model::{Action, Screen};
use tui::update::update;

use crate::sample::{
    Sample, account, act, catalogue_model, draw, fill, key, load, record, signed_in,
};
use crate::screens::check;

#[test]
fn the_first_steps_of_a_newcomer() {
    let mut model = signed_in(account(0, Role::Member, Sample::Normal));
    model.first_steps = FirstSteps::Pending;
    fill(&mut model, Sample::Empty);
    check("first_steps", &mut model);
    act(&mut model, Action::Open(Screen::Keys));
    check("first_steps_keys", &mut model);
    load(&mut model, Loaded::Keys(vec![key(0, Sample::Normal)]));
    act(&mut model, Action::Open(Screen::Models));
    check("first_steps_models", &mut model);
    let records = vec![record(0)];
    let batch = LogBatch { restarted: true, records, dropped: 0, live: true };
    update(&mut model, Message::LogReceived(batch));
    let steps = draw(&model, (80, 24)).to_string();
    assert!(steps.contains("3 of 3: 4 shows your request in the log"), "{steps}");
    act(&mut model, Action::HideFirstSteps);
    let steps = draw(&model, (80, 24)).to_string();
    assert!(!steps.contains("First steps"), "{steps}");
}

/// Regression test: the line named keys of the screen that were text of the prompt or of a form.
#[test]
fn the_first_steps_name_no_keys_that_an_overlay_takes() {
    let mut model = signed_in(account(0, Role::Member, Sample::Normal));
    model.first_steps = FirstSteps::Pending;
    fill(&mut model, Sample::Empty);
    let step = |model: &_| {
        let drawn = draw(model, (80, 24)).to_string();
        let line = drawn.lines().find_map(|line| line.split_once("of 3: ")).unwrap().1;
        line.trim_end_matches(['"', ' ']).to_owned()
    };
    act(&mut model, Action::Palette);
    assert_eq!(step(&model), "close this box, then 2, then n, makes an API key");
    act(&mut model, Action::Back);
    act(&mut model, Action::Open(Screen::Keys));
    act(&mut model, Action::New);
    assert_eq!(step(&model), "Enter makes the API key");
    act(&mut model, Action::Back);
    load(&mut model, Loaded::Keys(vec![key(0, Sample::Normal)]));
    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "laptop".to_owned(),
        secret: "sk-tg-secret".into(),
        models: Vec::new(),
    };
    let made = ChangeOutcome { secret: Some(made), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(made)));
    assert_eq!(step(&model), "t tries the key with a model");
    act(&mut model, Action::Copy);
    act(&mut model, Action::Back);
    load(&mut model, Loaded::Models(vec![catalogue_model(0, Sample::Normal)]));
    act(&mut model, Action::Open(Screen::Models));
    act(&mut model, Action::Try);
    assert_eq!(step(&model), "Enter sends what you typed");
    let records = vec![record(0)];
    let batch = LogBatch { restarted: true, records, dropped: 0, live: true };
    update(&mut model, Message::LogReceived(batch));
    assert_eq!(step(&model), "close this box, then 4 shows your request in the log");
}
