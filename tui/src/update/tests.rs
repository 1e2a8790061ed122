//! Tests of `update`: messages in, effects and model changes out.

mod catalogue;
mod first_steps;
mod forms;
mod help;
mod log;
mod nodes;
mod picker;
mod screens;
mod sign_in;
mod tables;
mod trail;
mod trial;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;

use super::update;
use crate::effect::Effect;
use crate::keymap;
use crate::message::{Loaded, Message};
use crate::model::accounts::{Account, AccountStatus, Role};
use crate::model::change::{ChangeOutcome, IssuedSecret, SecretKind};
use crate::model::keys::Key;
use crate::model::overlay::Overlay;
use crate::model::overlay::SecretState::{Closing, Copied};
use crate::model::plans::Limits;
use crate::model::subscription::{Scope, Subscription, Topic};
use crate::model::{Model, Notice, Screen};
use crate::theme::{Palette, Theme};

fn model() -> Model {
    let theme = Theme::new(Palette::Plain);
    Model::new("http://127.0.0.1:8081".to_owned(), None, TimeZone::UTC, theme)
}

/// Returns a model on the overview screen, signed in as an account with this role.
fn signed_in(role: Role) -> Model {
    let mut model = model();
    update(&mut model, Message::TokenFound("token".into()));
    load(&mut model, Loaded::Account(account("ada", role)));
    model
}

fn account(name: &str, role: Role) -> Account {
    Account {
        recent: None,
        id: format!("id-of-{name}"),
        name: name.to_owned(),
        role: Some(role),
        status: AccountStatus::Active,
        suspended_for: None,
        person_role: None,
        plan: Some("free".to_owned()),
        balance_usd: None,
        created_at: None,
    }
}

fn key(id: &str) -> Key {
    Key {
        recent: None,
        as_of: None,
        id: id.to_owned(),
        account: "ada".to_owned(),
        label: format!("label of {id}"),
        limits: Limits::default(),
        spend_cap_usd: None,
        models: Vec::new(),
        created_at: None,
        last_used_at: None,
        expires_at: None,
        revoked_at: None,
        successor: None,
    }
}

fn load(model: &mut Model, loaded: Loaded) -> Vec<Effect> {
    update(model, Message::Loaded(Box::new(loaded)))
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

/// Returns the debug output of the only change in `effects`.
fn change(effects: &[Effect]) -> String {
    match effects {
        [Effect::Change(change)] => format!("{change:?}"),
        other => panic!("not a change: {other:?}"),
    }
}

fn subscribed(effects: &[Effect]) -> &Subscription {
    match effects {
        [Effect::Subscribe(subscription)] => subscription,
        other => panic!("not a subscription: {other:?}"),
    }
}

#[test]
fn creates_a_key_and_shows_its_secret_once() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('2'));
    press(&mut model, KeyCode::Char('n'));
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "a key needs a label");
    write(&mut model, "laptop");
    press(&mut model, KeyCode::Tab);
    press(&mut model, KeyCode::Tab);
    write(&mut model, "60");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "200k");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert!(requested.starts_with("CreateKey { label: \"laptop\""), "{requested}");
    assert!(
        requested.contains("rpm: Some(60), tpm: Some(200000), concurrency: None"),
        "{requested}"
    );
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "already submitted");

    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "laptop".to_owned(),
        secret: "sk-tg-secret".into(),
        models: Vec::new(),
    };
    let done =
        ChangeOutcome { notice: "made".to_owned(), secret: Some(made), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    assert!(!format!("{model:?}").contains("sk-tg-secret"));
    assert!(matches!(&*press(&mut model, KeyCode::Char('y')), [Effect::Copy(_)]));
    assert!(matches!(&model.overlay, Some(Overlay::Secret(secret)) if secret.state == Copied));
    assert!(matches!(&*press(&mut model, KeyCode::Esc), [Effect::ClearScreen]));
    assert!(model.overlay.is_none());
}

#[test]
fn a_secret_that_was_not_copied_closes_with_the_second_key() {
    let mut model = signed_in(Role::Member);
    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "laptop".to_owned(),
        secret: "sk-tg-secret".into(),
        models: Vec::new(),
    };
    let done =
        ChangeOutcome { notice: "made".to_owned(), secret: Some(made), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    assert!(press(&mut model, KeyCode::Esc).is_empty());
    assert!(matches!(&model.overlay, Some(Overlay::Secret(secret)) if secret.state == Closing));
    assert!(matches!(&*press(&mut model, KeyCode::Esc), [Effect::ClearScreen]));
}

#[test]
fn a_new_secret_replaces_any_overlay() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char(':'));
    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "late".to_owned(),
        secret: "sk-tg-secret".into(),
        models: Vec::new(),
    };
    let done =
        ChangeOutcome { notice: "made".to_owned(), secret: Some(made), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    assert!(matches!(model.overlay, Some(Overlay::Secret(_))));
}

#[test]
fn a_failed_change_keeps_the_form_open_with_the_problem() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('2'));
    press(&mut model, KeyCode::Char('n'));
    write(&mut model, "laptop");
    press(&mut model, KeyCode::Enter);
    update(&mut model, Message::Changed(Err("there is no model `nope`".to_owned())));
    let Some(Overlay::Form(form)) = &model.overlay else { panic!("the form is gone") };
    assert_eq!(form.problem.as_deref(), Some("there is no model `nope`"));
    assert_eq!(form.text("label"), "laptop");
    assert!(!form.is_submitting);
}

#[test]
fn revoking_a_key_requires_confirmation() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('2'));
    load(&mut model, Loaded::Keys(vec![key("a"), key("b")]));
    press(&mut model, KeyCode::Char('j'));
    assert!(press(&mut model, KeyCode::Char('x')).is_empty());
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "Enter does not confirm");
    press(&mut model, KeyCode::Char('n'));
    assert!(model.overlay.is_none());
    press(&mut model, KeyCode::Char('x'));
    let requested = change(&press(&mut model, KeyCode::Char('y')));
    assert_eq!(requested, "RevokeKey { id: \"b\", label: \"label of b\" }");
}

#[test]
fn a_revoked_key_is_not_revoked_or_rotated_again() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('2'));
    let revoked = Key { revoked_at: jiff::Timestamp::new(1, 0).ok(), ..key("a") };
    load(&mut model, Loaded::Keys(vec![revoked]));
    for letter in ['x', 'R'] {
        press(&mut model, KeyCode::Char(letter));
        assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("revoked")));
        assert!(model.overlay.is_none());
    }
}

#[test]
fn editing_a_plan_keeps_unchanged_values() {
    use crate::model::plans::Plan;
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('8'));
    press(&mut model, KeyCode::Char('n'));
    write(&mut model, "new");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "5");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert!(requested.ends_with("is_new: true }"), "{requested}");
    model.overlay = None;
    let limits = Limits { monthly_tokens: Some(5), observe: true, ..Limits::default() };
    let plan = Plan { name: "team".to_owned(), limits, ..Plan::default() };
    let plan = Plan { trial_credit_usd: Some("5".to_owned()), max_keys: Some(7), ..plan };
    load(&mut model, Loaded::Plans(vec![plan.clone()]));
    press(&mut model, KeyCode::Char('e'));
    press(&mut model, KeyCode::Down);
    write(&mut model, "60");
    let requested = change(&press(&mut model, KeyCode::Enter));
    let limits = Limits { rpm: Some(60), ..limits };
    let changed = Plan { limits, ..plan };
    assert_eq!(requested, format!("PutPlan {{ plan: {changed:?}, is_new: false }}"));
}

#[test]
fn operators_credit_suspend_and_resume() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('6'));
    load(&mut model, Loaded::Accounts(vec![account("bob", Role::Member)]));
    press(&mut model, KeyCode::Char('c'));
    write(&mut model, "2.5x");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "gift");
    assert!(press(&mut model, KeyCode::Enter).is_empty(), "`2.5x` is not an amount");
    press(&mut model, KeyCode::Backspace);
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert_eq!(requested, "Credit { account: \"bob\", amount_usd: \"2.5\", reason: \"gift\" }");
    update(
        &mut model,
        Message::Changed(Ok(ChangeOutcome {
            notice: "done".to_owned(),
            ..ChangeOutcome::default()
        })),
    );

    press(&mut model, KeyCode::Char('s'));
    write(&mut model, "unpaid");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert_eq!(requested, "Batch([Suspend { account: \"bob\", reason: \"unpaid\" }])");
    update(
        &mut model,
        Message::Changed(Ok(ChangeOutcome {
            notice: "done".to_owned(),
            ..ChangeOutcome::default()
        })),
    );

    let suspended = Account { status: AccountStatus::Suspended, ..account("bob", Role::Member) };
    load(&mut model, Loaded::Accounts(vec![suspended]));
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(change(&press(&mut model, KeyCode::Char('y'))), "Resume { account: \"bob\" }");
}

/// Regression test: the first row was selected, and the next form was about it.
#[test]
fn escape_with_nothing_to_close_keeps_the_selected_row() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('6'));
    let accounts = ["alice", "bob"].map(|name| account(name, Role::Member));
    load(&mut model, Loaded::Accounts(accounts.into()));
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('c'));
    write(&mut model, "2");
    press(&mut model, KeyCode::Tab);
    write(&mut model, "gift");
    let requested = change(&press(&mut model, KeyCode::Enter));
    assert_eq!(requested, "Credit { account: \"bob\", amount_usd: \"2\", reason: \"gift\" }");
}

#[test]
fn each_screen_subscribes_to_its_data() {
    let mut model = model();
    update(&mut model, Message::TokenFound("token".into()));
    let effects = load(&mut model, Loaded::Account(account("ada", Role::Operator)));
    assert_eq!(
        subscribed(&effects).traffic,
        Some(Scope::Gateway),
        "operators watch the whole gateway"
    );
    assert_eq!(subscribed(&effects).keys, Scope::Account);
    assert_eq!(subscribed(&press(&mut model, KeyCode::Char('2'))).keys, Scope::Gateway);
    let effects = press(&mut model, KeyCode::Char('7'));
    let topics = [Topic::Account, Topic::Upstreams, Topic::Health, Topic::Models];
    assert_eq!(subscribed(&effects).topics, topics);
    assert_eq!(subscribed(&effects).traffic, None);
    let effects = press(&mut model, KeyCode::Char('3'));
    let topics = [Topic::Account, Topic::Models, Topic::Upstreams, Topic::Health];
    assert_eq!(subscribed(&effects).topics, topics, "operators see model health");
    press(&mut model, KeyCode::Char('7'));
    assert!(press(&mut model, KeyCode::Char('7')).is_empty(), "the subscription is unchanged");
}

#[test]
fn health_and_upstreams_merge_in_either_order() {
    use crate::model::upstreams::{Health, Upstream};
    let upstreams =
        || Loaded::Upstreams(vec![Upstream { name: "local".to_owned(), ..Upstream::default() }]);
    let health = || {
        let name = "local".to_owned();
        Loaded::Health(vec![Health { name, in_flight: 3, ..Health::default() }])
    };
    for order in [[upstreams(), health(), upstreams()], [health(), upstreams(), upstreams()]] {
        let mut model = signed_in(Role::Operator);
        for loaded in order {
            load(&mut model, loaded);
        }
        let health = model.data.upstreams.entries[0].health.as_ref();
        assert_eq!(health.map(|health| health.in_flight), Some(3));
    }
}

#[test]
fn signing_out_discards_all_data() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('2'));
    load(&mut model, Loaded::Keys(vec![key("a")]));
    write(&mut model, ":sign-out");
    assert!(matches!(&*press(&mut model, KeyCode::Enter), [Effect::SignOut]));
    update(&mut model, Message::SignedOut("signed out".to_owned()));
    assert_eq!(model.screen, Screen::SignIn);
    // Late responses of the previous session are dropped.
    load(&mut model, Loaded::Keys(vec![key("b")]));
    assert!(model.data.keys.entries.is_empty() && model.data.account.value.is_none());
}
