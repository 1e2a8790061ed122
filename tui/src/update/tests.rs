//! Messages go in, effects and a changed model come out.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use secrecy::ExposeSecret;

use super::update;
use crate::effect::Effect;
use crate::keymap;
use crate::message::Message;
use crate::model::overview::LOG_LENGTH;
use crate::model::record::{Record, Tailed, Tokens};
use crate::model::sign_in::Field;
use crate::model::{Link, Model, Screen};
use crate::theme::Theme;

fn model() -> Model {
    Model::new("http://127.0.0.1:8081".to_owned(), TimeZone::UTC, Theme::plain())
}

fn overview() -> Model {
    let mut model = model();
    update(&mut model, Message::TokenFound("token".into()));
    model
}

fn press(model: &mut Model, code: KeyCode) -> Vec<Effect> {
    let event = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    keymap::message(model.focus(), &event).map_or_else(Vec::new, |message| update(model, message))
}

fn write(model: &mut Model, text: &str) {
    for letter in text.chars() {
        assert!(press(model, KeyCode::Char(letter)).is_empty());
    }
}

fn tail(model: &mut Model, names: &[&str], restarted: bool, dropped: u64) {
    let records = names.iter().map(|name| Record {
        started_at: None,
        model: Some((*name).to_owned()),
        status: None,
        tokens: Tokens::default(),
        duration_ms: None,
        cost_usd: None,
    });
    let tailed = Tailed { restarted, records: records.collect(), dropped, live: true };
    assert!(update(model, Message::Tailed(tailed)).is_empty());
}

fn selected(model: &Model) -> &str {
    let log = &model.overview.log;
    log.records[log.selected].model.as_deref().unwrap()
}

#[test]
fn a_token_found_at_start_opens_the_overview_and_follows() {
    let mut model = model();
    let effects = update(&mut model, Message::TokenFound("secret".into()));
    assert!(matches!(&*effects, [Effect::Follow { token }] if token.expose_secret() == "secret"));
    assert_eq!(model.screen, Screen::Overview);
}

#[test]
fn signing_in_sends_the_form_once_and_clears_the_password() {
    let mut model = model();
    write(&mut model, "quine?");
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    assert_eq!(model.sign_in.field, Field::Password);
    write(&mut model, "geheim q");
    let effects = press(&mut model, KeyCode::Enter);
    let [Effect::SignIn { name, password }] = &*effects else { panic!("{effects:?}") };
    assert_eq!((name.as_str(), password.expose_secret()), ("quine?", "geheim q"));
    assert_eq!(model.sign_in.password.value(), "");
    assert!(!format!("{effects:?} {model:?}").contains("geheim"), "a secret in debug output");

    assert!(press(&mut model, KeyCode::Enter).is_empty(), "sent twice");
    let effects = update(&mut model, Message::SignedIn("token".into()));
    assert!(matches!(&*effects, [Effect::Follow { .. }]));
    assert_eq!(model.screen, Screen::Overview);
    assert_eq!(model.sign_in.name.value(), "");
}

#[test]
fn a_form_with_a_gap_is_not_sent_and_says_what_is_missing() {
    let mut model = model();
    assert!(press(&mut model, KeyCode::Enter).is_empty());
    assert_eq!(model.sign_in.problem.as_deref(), Some("type the name of your account"));
    write(&mut model, "ada");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.sign_in.problem, None);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.sign_in.problem.as_deref(), Some("type your password"));
}

#[test]
fn a_refused_password_keeps_the_name_and_asks_again() {
    let mut model = model();
    write(&mut model, "ada");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "wrong");
    press(&mut model, KeyCode::Enter);
    update(&mut model, Message::SignInFailed("try again".to_owned()));
    assert_eq!(model.sign_in.name.value(), "ada");
    assert_eq!(model.sign_in.field, Field::Password);
    assert_eq!(model.sign_in.problem.as_deref(), Some("try again"));
    assert!(!model.sign_in.busy);
}

#[test]
fn a_token_that_is_no_longer_accepted_leads_to_the_form_and_hides_the_account() {
    let mut model = overview();
    tail(&mut model, &["a"], true, 0);
    update(&mut model, Message::SignedOut("sign in".to_owned()));
    assert_eq!(model.screen, Screen::SignIn);
    assert!(model.overview.log.records.is_empty());
    assert_eq!(model.link, Link::Idle);
}

#[test]
fn keys_of_the_overview_have_their_effects() {
    let mut model = overview();
    assert!(matches!(&*press(&mut model, KeyCode::Char('r')), [Effect::Refresh]));
    assert!(press(&mut model, KeyCode::Char('?')).is_empty());
    assert!(model.help);
    assert!(press(&mut model, KeyCode::Char('r')).is_empty(), "the help swallows other keys");
    press(&mut model, KeyCode::Esc);
    assert!(!model.help);
    assert!(matches!(&*press(&mut model, KeyCode::Char('q')), [Effect::Quit]));
}

#[test]
fn control_c_leaves_from_everywhere() {
    let event = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    for (mut model, help) in [(model(), false), (overview(), false), (overview(), true)] {
        model.help = help;
        let message = keymap::message(model.focus(), &event).unwrap();
        assert!(matches!(&*update(&mut model, message), [Effect::Quit]));
    }
}

#[test]
fn the_cursor_follows_news_on_the_newest_row_and_else_stays_with_its_record() {
    let mut model = overview();
    tail(&mut model, &["a", "b"], true, 0);
    assert_eq!(selected(&model), "b");
    tail(&mut model, &["c"], false, 0);
    assert_eq!(selected(&model), "c");
    press(&mut model, KeyCode::Char('j'));
    assert_eq!(selected(&model), "b");
    tail(&mut model, &["d", "e"], false, 0);
    assert_eq!(selected(&model), "b");
    press(&mut model, KeyCode::Char('G'));
    press(&mut model, KeyCode::Down);
    assert_eq!(selected(&model), "a");
    press(&mut model, KeyCode::Char('g'));
    press(&mut model, KeyCode::Up);
    assert_eq!(selected(&model), "e");
}

#[test]
fn the_log_keeps_the_last_records_and_counts_the_skipped_ones() {
    let mut model = overview();
    tail(&mut model, &["x"; LOG_LENGTH], true, 0);
    press(&mut model, KeyCode::End);
    tail(&mut model, &["y"; 7], false, 3);
    tail(&mut model, &[], false, 2);
    let log = &model.overview.log;
    assert_eq!((log.records.len(), log.selected, log.skipped), (LOG_LENGTH, LOG_LENGTH - 1, 5));
    assert_eq!(log.records[6].model.as_deref(), Some("y"));
    tail(&mut model, &["z"], true, 0);
    let log = &model.overview.log;
    assert_eq!((log.records.len(), log.selected, log.skipped), (1, 0, 0));
}

#[test]
fn no_two_rows_of_the_key_map_claim_the_same_key() {
    for focus in [keymap::Focus::SignIn, keymap::Focus::Overview, keymap::Focus::Help] {
        let mut keys: Vec<_> = keymap::bindings(focus).flat_map(keymap::Binding::labels).collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all, "{focus:?}");
    }
}
