//! Tests of trying a model.

use super::*;
use crate::model::Action;
use crate::model::catalogue::{CatalogueModel, Deployment};
use crate::model::record::Record;
use crate::model::trial::{TrialApi, TrialEvent, TrialRequest, TrialState};
use crate::model::upstreams::Upstream;

fn models() -> Model {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('3'));
    let entry = |id: &str| CatalogueModel { id: id.to_owned(), ..CatalogueModel::default() };
    load(&mut model, Loaded::Models(vec![entry("a"), entry("b")]));
    model
}

fn sent(effects: &[Effect]) -> &TrialRequest {
    match effects {
        [Effect::Try(request)] => request,
        other => panic!("not sent: {other:?}"),
    }
}

fn trial(model: &Model) -> (&str, &TrialState) {
    match &model.overlay {
        Some(Overlay::Trial(trial)) => (&trial.answer, &trial.state),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_prompt_is_sent_and_its_answer_follows() {
    let mut model = models();
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Char('t'));
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "nothing to ask");
    write(&mut model, "Say hi q");
    press(&mut model, KeyCode::Tab);
    let effects = press(&mut model, KeyCode::Enter);
    let request = sent(&effects);
    assert_eq!((request.model.as_str(), request.prompt.as_str()), ("b", "Say hi q"));
    assert_eq!((request.api, request.run), (TrialApi::Responses, 1));
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "already sent");
    for event in [TrialEvent::Text("Hi".to_owned()), TrialEvent::Text("!".to_owned())] {
        update(&mut model, Message::Trial(1, event));
    }
    assert_eq!(trial(&model), ("Hi!", &TrialState::Running));
    update(&mut model, Message::Trial(1, TrialEvent::Done));
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(sent(&effects).run, 2);
    update(&mut model, Message::Trial(1, TrialEvent::Text("late".to_owned())));
    assert_eq!(trial(&model), ("", &TrialState::Running));
    assert!(matches!(&*press(&mut model, KeyCode::Esc), [Effect::StopTrial]));
    assert!(model.overlay.is_none());
}

#[test]
fn a_new_key_can_be_tried_and_comes_back() {
    let mut model = models();
    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "laptop".to_owned(),
        secret: "sk-tg-secret".into(),
        models: Vec::new(),
    };
    let done =
        ChangeOutcome { notice: "made".to_owned(), secret: Some(made), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    press(&mut model, KeyCode::Char('t'));
    write(&mut model, "Say hi");
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(sent(&effects).model, "a");
    assert!(sent(&effects).key.is_some());
    assert!(!format!("{model:?}{effects:?}").contains("sk-tg-secret"));
    press(&mut model, KeyCode::Esc);
    assert!(matches!(model.overlay, Some(Overlay::Secret(_))));
}

#[test]
fn only_the_secret_of_a_key_offers_a_trial() {
    for (kind, can) in [
        (SecretKind::Key, true),
        (SecretKind::Invite, false),
        (SecretKind::PasswordReset, false),
        (SecretKind::Person, false),
    ] {
        let mut model = models();
        let (label, secret) = ("laptop".to_owned(), "secret".into());
        let made = IssuedSecret { kind, label, secret, models: Vec::new() };
        let done = ChangeOutcome {
            notice: "made".to_owned(),
            secret: Some(made),
            ..ChangeOutcome::default()
        };
        update(&mut model, Message::Changed(Ok(done)));
        assert_eq!(model.allows(Action::Try), can, "{kind:?}");
    }
}

#[test]
fn the_end_of_the_session_stops_the_request_and_operations() {
    let mut model = models();
    press(&mut model, KeyCode::Char('t'));
    write(&mut model, "Say hi");
    press(&mut model, KeyCode::Enter);
    let effects = update(&mut model, Message::SignedOut("the session ended".to_owned()));
    let [Effect::StopTrial, Effect::StopOperations, Effect::ClearScreen, ..] = &*effects else {
        panic!("{effects:?}")
    };
}

#[test]
fn the_record_of_a_trial_is_shown_whether_or_not_the_log_has_it() {
    let mut model = models();
    press(&mut model, KeyCode::Char('t'));
    write(&mut model, "Say hi");
    press(&mut model, KeyCode::Enter);
    let open = |model: &mut Model| {
        let key = Event::Key(KeyEvent::new(KeyCode::Char('o'), KeyModifiers::CONTROL));
        let message = keymap::message(model.focus(), &key).unwrap();
        update(model, message);
        match &model.overlay {
            Some(Overlay::Trial(trial)) => trial.is_record_open,
            other => panic!("{other:?}"),
        }
    };
    assert!(!open(&mut model), "there is none yet");
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("answer ends")));
    update(&mut model, Message::Trial(1, TrialEvent::Done));
    let record = Record { id: "mine".to_owned(), ..Record::default() };
    update(&mut model, Message::Trial(1, TrialEvent::Recorded(Box::new(record))));
    assert!(open(&mut model));
    assert!(!open(&mut model), "back to the answer");
    assert!(open(&mut model));
    press(&mut model, KeyCode::Esc);
    assert_eq!(trial(&model), ("", &TrialState::Done));
    press(&mut model, KeyCode::Esc);
    assert!(model.overlay.is_none());
}

#[test]
fn a_new_key_is_tried_with_its_models_only_and_first_with_the_one_that_answers() {
    let mut model = signed_in(Role::Owner);
    press(&mut model, KeyCode::Char('2'));
    let entry = |id: &str, upstream: &str| CatalogueModel {
        id: id.to_owned(),
        deployments: Deployment::parse(upstream).into_iter().collect(),
        ..CatalogueModel::default()
    };
    let entries = [entry("llama", "local"), entry("sim-chat", "sim"), entry("zeta", "sim")];
    load(&mut model, Loaded::Models(entries.to_vec()));
    let upstream = |name: &str, url: &str| Upstream {
        name: name.to_owned(),
        url: url.to_owned(),
        ..Upstream::default()
    };
    let upstreams = vec![upstream("local", "http://127.0.0.1:9/v1"), upstream("sim", "sim:")];
    load(&mut model, Loaded::Upstreams(upstreams));
    let mut try_key = |models: &[&str]| {
        let made = IssuedSecret {
            kind: SecretKind::Key,
            label: "laptop".to_owned(),
            secret: "sk-tg-secret".into(),
            models: models.iter().map(|it| (*it).to_owned()).collect(),
        };
        let done = ChangeOutcome {
            notice: "made".to_owned(),
            secret: Some(made),
            ..ChangeOutcome::default()
        };
        update(&mut model, Message::Changed(Ok(done)));
        press(&mut model, KeyCode::Char('t'));
        let first = tried(&model);
        press_next(&mut model);
        (first, tried(&model))
    };
    let pair = |first: &str, second: &str| (first.to_owned(), second.to_owned());
    assert_eq!(try_key(&["zeta"]), pair("zeta", "zeta"));
    assert_eq!(try_key(&["llama", "zeta"]), pair("zeta", "llama"));
    assert_eq!(try_key(&[]), pair("sim-chat", "zeta"));
    // None of the models of the key is in the catalogue.
    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "laptop".to_owned(),
        secret: "sk-tg-secret".into(),
        models: vec!["gone".to_owned()],
    };
    let done =
        ChangeOutcome { notice: "made".to_owned(), secret: Some(made), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    press(&mut model, KeyCode::Char('t'));
    assert!(matches!(model.overlay, Some(Overlay::Secret(_))));
}

#[test]
fn the_next_model_starts_without_the_answer_of_the_one_before() {
    let mut model = models();
    press(&mut model, KeyCode::Char('t'));
    write(&mut model, "Say hi");
    press(&mut model, KeyCode::Enter);
    update(&mut model, Message::Trial(1, TrialEvent::Failed("HTTP 502".to_owned())));
    press_next(&mut model);
    assert_eq!((tried(&model).as_str(), trial(&model)), ("b", ("", &TrialState::Asking)));
    update(&mut model, Message::Trial(1, TrialEvent::Text("late".to_owned())));
    assert_eq!(trial(&model).0, "");
}

fn tried(model: &Model) -> String {
    match &model.overlay {
        Some(Overlay::Trial(trial)) => trial.model.clone(),
        other => panic!("{other:?}"),
    }
}

/// Presses Ctrl-N.
fn press_next(model: &mut Model) {
    let key = Event::Key(KeyEvent::new(KeyCode::Char('n'), KeyModifiers::CONTROL));
    let message = keymap::message(model.focus(), &key).unwrap();
    update(model, message);
}
