//! Tests of signing in, registration and signing out.

use secrecy::{ExposeSecret, SecretString};

use super::*;
use crate::model::sign_in::{NAME, PASSWORD};
use crate::model::{BaseUrl, ConnectionState};

fn current(model: &Model) -> &str {
    let form = &model.sign_in.form;
    form.fields[form.current].label
}

fn problem(model: &Model) -> Option<&str> {
    model.sign_in.form.problem.as_deref()
}

#[test]
fn a_startup_token_connects_and_opens_the_overview() {
    let mut model = model();
    let effects = update(&mut model, Message::TokenFound("secret".into()));
    let [Effect::Connect { token }, Effect::Subscribe(_)] = &*effects else {
        panic!("{effects:?}")
    };
    assert_eq!(token.expose_secret(), "secret");
    assert_eq!(model.screen, Screen::Overview);
}

#[test]
fn signing_in_clears_the_password_from_the_form() {
    let mut model = model();
    write(&mut model, "ada");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "correct horse");
    let effects = press(&mut model, KeyCode::Enter);
    let [Effect::SignIn { name, password }] = &*effects else { panic!("{effects:?}") };
    assert_eq!((name.as_str(), password.expose_secret()), ("ada", "correct horse"));
    assert_eq!(model.sign_in.form.field(PASSWORD).unwrap().input.value(), "");
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "already submitted");
    update(&mut model, Message::SignedIn("token".into()));
    assert_eq!(model.screen, Screen::Overview);
}

#[test]
fn a_missing_field_gets_focus_before_it_is_reported() {
    let mut model = model();
    write(&mut model, "ada");
    press(&mut model, KeyCode::Enter);
    assert_eq!((current(&model), problem(&model)), (PASSWORD, None));
    press(&mut model, KeyCode::Enter);
    assert_eq!(problem(&model), Some("type your password"));
}

#[test]
fn a_failed_sign_in_keeps_the_name() {
    let mut model = model();
    write(&mut model, "ada");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "wrong");
    press(&mut model, KeyCode::Enter);
    update(&mut model, Message::SignInFailed("try again".to_owned()));
    assert_eq!((current(&model), problem(&model)), (PASSWORD, Some("try again")));
    assert_eq!(model.sign_in.form.text(NAME), "ada");
}

#[test]
fn registration_requires_the_password_twice() {
    let mut model = model();
    write(&mut model, "ada");
    let other = Event::Key(KeyEvent::new(KeyCode::Char('n'), KeyModifiers::CONTROL));
    let other = keymap::message(model.focus(), &other).unwrap();
    update(&mut model, other);
    press(&mut model, KeyCode::Tab);
    write(&mut model, "short");
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    assert!(problem(&model).unwrap().contains("eight"));
    write(&mut model, " no more");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "short no");
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    assert!(problem(&model).unwrap().contains("not the same"));
    write(&mut model, " more");
    let effects = press(&mut model, KeyCode::Enter);
    let [Effect::Register { name, password, invite }] = &*effects else { panic!("{effects:?}") };
    assert_eq!((name.as_str(), password.expose_secret()), ("ada", "short no more"));
    assert_eq!(invite, "");
}

#[test]
fn pasting_a_password_drops_the_line_end() {
    let mut model = model();
    press(&mut model, KeyCode::Tab);
    update(&mut model, Message::Pasted(SecretString::from("correct horse\n")));
    assert_eq!(model.sign_in.form.field(PASSWORD).unwrap().input.value(), "correct horse");
}

#[test]
fn a_rejected_token_opens_the_sign_in_form_and_discards_data() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('?'));
    update(&mut model, Message::SignedOut("sign in".to_owned()));
    assert_eq!((model.screen, problem(&model)), (Screen::SignIn, Some("sign in")));
    assert!(model.data.account.value.is_none() && model.overlay.is_none());
    assert_eq!(model.connection, ConnectionState::Idle);
}

#[test]
fn the_reported_base_url_does_not_override_the_users() {
    let found = |given: Option<&str>| {
        let mut model = model();
        if let Some(url) = given {
            model.base_url = BaseUrl::Configured(url.to_owned());
        }
        update(&mut model, Message::TokenFound("secret".into()));
        update(&mut model, Message::ApiUrlDiscovered("https://gate.example/v1".to_owned()));
        model.base_url.as_str().to_owned()
    };
    assert_eq!(found(None), "https://gate.example/v1");
    assert_eq!(found(Some("http://proxy.example/v1")), "http://proxy.example/v1");
}
