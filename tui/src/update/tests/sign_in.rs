//! Tests of signing in, registration and signing out.

use secrecy::{ExposeSecret, SecretString};

use super::*;
use crate::model::sign_in::{AGAIN, NAME, PASSWORD, SignIn, SignInRefusal};
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
    let [Effect::Connect { token, is_kept: false }, Effect::Subscribe(_)] = &*effects else {
        panic!("{effects:?}")
    };
    assert_eq!(token.expose_secret(), "secret");
    assert_eq!(model.screen, Screen::Overview);
}

#[test]
fn signing_in_wipes_the_form() {
    let mut model = model();
    write(&mut model, "ada");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "correct horse");
    let effects = press(&mut model, KeyCode::Enter);
    let [Effect::SignIn { name, password }] = &*effects else { panic!("{effects:?}") };
    assert_eq!((name.as_str(), password.expose_secret()), ("ada", "correct horse"));
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "already submitted");
    let effects = update(&mut model, Message::SignedIn { token: "token".into(), kept: Ok(true) });
    assert!(matches!(&*effects, [Effect::Connect { is_kept: true, .. }, Effect::Subscribe(_)]));
    assert_eq!(model.screen, Screen::Overview);
    assert_eq!(model.sign_in.form.field(PASSWORD).unwrap().input.value(), "");
}

#[test]
fn a_missing_field_gets_focus_before_it_is_reported() {
    let mut model = model();
    write(&mut model, "ada");
    press(&mut model, KeyCode::Enter);
    assert_eq!((current(&model), problem(&model)), (PASSWORD, None));
    press(&mut model, KeyCode::Enter);
    assert_eq!(problem(&model), Some("password: type your password"));
}

#[test]
fn a_failed_sign_in_keeps_the_name() {
    let mut model = model();
    write(&mut model, "ada");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "wrong");
    press(&mut model, KeyCode::Enter);
    let refusal = SignInRefusal::of(PASSWORD, "try again");
    update(&mut model, Message::SignInFailed(refusal));
    assert_eq!((current(&model), problem(&model)), (PASSWORD, Some("try again")));
    assert_eq!((model.sign_in.form.text(NAME), model.sign_in.form.text(PASSWORD)), ("ada", ""));
}

#[test]
fn a_refused_name_gets_the_focus_and_keeps_the_passwords() {
    let mut model = model();
    model.sign_in.form = SignIn::register("ada");
    for (label, text) in [(PASSWORD, "long enough"), (AGAIN, "long enough")] {
        press(&mut model, KeyCode::Tab);
        assert_eq!(current(&model), label);
        write(&mut model, text);
    }
    assert!(matches!(&*press(&mut model, KeyCode::Enter), [Effect::Register { .. }]));
    update(&mut model, Message::SignInFailed(SignInRefusal::of(NAME, "taken")));
    assert_eq!((current(&model), problem(&model)), (NAME, Some("taken")));
    write(&mut model, "2");
    let effects = press(&mut model, KeyCode::Enter);
    let [Effect::Register { name, password, .. }] = &*effects else { panic!("{effects:?}") };
    assert_eq!((name.as_str(), password.expose_secret()), ("ada2", "long enough"));
}

#[test]
fn an_unreachable_gateway_is_reported_before_the_password_is_asked() {
    let mut model = model();
    assert!(matches!(&*update(&mut model, Message::NoToken), [Effect::CheckGateway]));
    update(&mut model, Message::GatewayChecked(Some("no gateway".to_owned())));
    assert_eq!(model.sign_in.unreachable.as_deref(), Some("no gateway"));
    update(&mut model, Message::GatewayChecked(None));
    assert_eq!(model.sign_in.unreachable, None);
}

#[test]
fn a_session_that_cannot_be_kept_is_reported() {
    let mut model = model();
    let kept = Err("the file is read-only".to_owned());
    update(&mut model, Message::SignedIn { token: "token".into(), kept });
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("read-only")));
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
fn pasted_line_breaks_between_words_become_spaces() {
    let mut model = model();
    update(&mut model, Message::Pasted(SecretString::from("\na\r\nb\tc d\u{1b}\n\n")));
    assert_eq!(model.sign_in.form.field(NAME).unwrap().input.value(), "a b c d");
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
