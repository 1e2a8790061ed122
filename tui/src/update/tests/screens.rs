//! Tests of screen switching, the palette, filters and the help.

use super::*;
use crate::model::catalogue::CatalogueModel;
use crate::model::in_flight::InFlight;
use crate::model::record::{LogBatch, Record, RequestStatus};
use crate::model::upstreams::Upstream;
use crate::model::{Action, Start};

#[test]
fn numbers_tabs_and_commands_open_screens() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('3'));
    assert_eq!(model.screen, Screen::Models);
    press(&mut model, KeyCode::Tab);
    assert_eq!(model.screen, Screen::Usage);
    press(&mut model, KeyCode::Tab);
    assert_eq!(model.screen, Screen::Overview, "the last tab wraps to the first");
    press(&mut model, KeyCode::BackTab);
    assert_eq!(model.screen, Screen::Usage);
    write(&mut model, ":ke");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.screen, Screen::Keys);
    write(&mut model, ":quit");
    assert!(matches!(&*press(&mut model, KeyCode::Enter), [Effect::Quit]));
}

#[test]
fn an_open_detail_subscribes_to_the_limits_of_its_account() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('6'));
    let mut accounts = ["ada", "bob"].map(|name| account(name, Role::Member));
    accounts[1].status = AccountStatus::Suspended;
    load(&mut model, Loaded::Accounts(accounts.into()));
    let effects = press(&mut model, KeyCode::Enter);
    assert_eq!(subscribed(&effects).limits_of.as_deref(), Some("ada"));
    assert!(!subscribed(&effects).topics.contains(&Topic::Suspension));
    let effects = press(&mut model, KeyCode::Down);
    let subscription = subscribed(&effects);
    assert_eq!(subscription.limits_of.as_deref(), Some("bob"));
    assert!(subscription.topics.contains(&Topic::Limits));
    assert!(subscription.topics.contains(&Topic::Suspension), "why is it suspended?");
    let effects = press(&mut model, KeyCode::Esc);
    assert_eq!(subscribed(&effects).limits_of, None);
}

#[test]
fn members_cannot_open_operator_screens() {
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('6'));
    assert_eq!(model.screen, Screen::Overview);
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("operators")));
    write(&mut model, ":accounts");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.screen, Screen::Overview);
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('6'));
    assert_eq!(model.screen, Screen::Accounts);
}

#[test]
fn an_unknown_command_is_reported() {
    let mut model = signed_in(Role::Member);
    write(&mut model, ":frobnicate");
    press(&mut model, KeyCode::Enter);
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("frobnicate")));
}

#[test]
fn the_filter_applies_while_typing_and_escape_restores_it() {
    let entry = |id: &str| CatalogueModel { id: id.to_owned(), ..CatalogueModel::default() };
    let mut model = signed_in(Role::Member);
    press(&mut model, KeyCode::Char('3'));
    load(&mut model, Loaded::Models(vec![entry("Llama-8b"), entry("qwen"), entry("llama-70b")]));
    press(&mut model, KeyCode::End);
    write(&mut model, "/LLAMA");
    assert_eq!(model.data.models.visible().count(), 2);
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Char('j'));
    assert_eq!(model.data.models.current().unwrap().id, "llama-70b");
    // A refetch in another order with one more entry.
    load(&mut model, Loaded::Models(vec![entry("llama-70b"), entry("llama-9b"), entry("qwen")]));
    assert_eq!(model.data.models.current().unwrap().id, "llama-70b");
    write(&mut model, "/x");
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.data.models.filter, "LLAMA");
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.data.models.visible().count(), 3);
}

#[test]
fn a_command_is_found_by_a_part_of_its_name_or_of_what_it_does() {
    let model = signed_in(Role::Operator);
    let found = |typed: &str| {
        let found = keymap::commands(&model, typed).into_iter();
        found.filter_map(|row| row.command).collect::<Vec<_>>()
    };
    assert_eq!(found("plan"), ["plans"]);
    assert_eq!(found("out")[0], "sign-out");
    assert_eq!(found("local zone"), ["utc"]);
    assert_eq!(found("x"), [""; 0], "one letter only starts a name");
    assert_eq!(found("log")[0], "usage", "a whole synonym precedes a part of a description");
}

#[test]
fn what_is_no_command_of_the_screen_is_searched_in_the_help() {
    let mut model = signed_in(Role::Member);
    write(&mut model, ":playground");
    press(&mut model, KeyCode::Enter);
    let Some(Overlay::Help(open)) = &model.overlay else { panic!("{:?}", model.overlay) };
    let rows = keymap::help::help(&model, open);
    assert!(rows.iter().any(|row| row.binding.action == Action::Try), "{rows:?}");
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.screen, Screen::Models, "the row leads to its screen");
    write(&mut model, ":no such thing");
    press(&mut model, KeyCode::Enter);
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("? lists")));
}

#[test]
fn keys_in_the_help_do_not_reach_the_screen() {
    let mut model = signed_in(Role::Member);
    assert!(press(&mut model, KeyCode::Char('?')).is_empty());
    assert!(press(&mut model, KeyCode::Char('2')).is_empty());
    assert_eq!(model.screen, Screen::Overview, "it is searched");
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('?'));
    assert!(model.overlay.is_none());
}

#[test]
fn control_c_quits_in_every_focus() {
    let event = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    for keys in ["", "?", ":", "2/", "2n"] {
        let mut model = signed_in(Role::Member);
        write_any(&mut model, keys);
        let message = keymap::message(model.focus(), &event).unwrap();
        assert!(matches!(&*update(&mut model, message), [Effect::Quit]), "after `{keys}`");
    }
}

#[test]
fn the_next_key_clears_a_notice() {
    let mut model = signed_in(Role::Member);
    update(&mut model, Message::Changed(Err("it is gone".to_owned())));
    assert_eq!(model.notice, Some(Notice::Problem("it is gone".to_owned())));
    press(&mut model, KeyCode::Char('?'));
    assert_eq!(model.notice, None);
}

fn write_any(model: &mut Model, text: &str) {
    for letter in text.chars() {
        press(model, KeyCode::Char(letter));
    }
}

#[test]
fn the_first_screen_is_the_one_of_the_command_line() {
    let mut model = model();
    let filter = "status:failed".to_owned();
    model.start = Some(Start { screen: Screen::Usage, filter: filter.clone(), is_asked: true });
    let effects = update(&mut model, Message::TokenFound("token".into()));
    assert_eq!((model.screen, &model.data.usage.filter), (Screen::Usage, &filter));
    let is_subscribed = |it: &Effect| matches!(it, Effect::Subscribe(it) if it.filter == filter);
    assert!(effects.iter().any(is_subscribed));

    model.start = Some(Start { screen: Screen::Accounts, filter: String::new(), is_asked: true });
    update(&mut model, Message::SignedOut("again".to_owned()));
    update(&mut model, Message::TokenFound("token".into()));
    assert_eq!(model.screen, Screen::Accounts);
    load(&mut model, Loaded::Account(account("ada", Role::Member)));
    assert_eq!(model.screen, Screen::Overview);
    assert!(matches!(&model.notice, Some(Notice::Problem(it)) if it.contains("for operators")));

    model.start = Some(Start { screen: Screen::Accounts, filter: String::new(), is_asked: false });
    update(&mut model, Message::SignedOut("again".to_owned()));
    model.notice = None;
    update(&mut model, Message::TokenFound("token".into()));
    load(&mut model, Loaded::Account(account("ada", Role::Member)));
    assert_eq!((model.screen, &model.notice), (Screen::Overview, &None), "it was open before");
}

#[test]
fn nothing_is_changed_while_read_only() {
    let mut model = signed_in(Role::Owner);
    load(&mut model, Loaded::Keys(vec![key("a")]));
    load(&mut model, Loaded::Accounts(vec![account("bob", Role::Member)]));
    model.is_read_only = true;
    for screen in Screen::openable() {
        update(&mut model, Message::Act(Action::Open(screen)));
        for binding in keymap::bindings(model.focus()).filter(|it| it.action.is_change()) {
            assert!(!model.allows(binding.action));
            let effects = update(&mut model, Message::Act(binding.action));
            assert!(effects.iter().all(|it| !it.is_change()));
            assert!(model.overlay.is_none() && model.notice.is_some(), "{}", binding.help);
        }
    }
    assert!(update(&mut model, Message::Act(Action::SignOut)).is_empty(), "the session stays");
}

#[test]
fn support_is_told_what_only_operators_may_do() {
    let mut model = signed_in(Role::Support);
    load(&mut model, Loaded::Upstreams(vec![Upstream::default()]));
    update(&mut model, Message::Act(Action::Open(Screen::Upstreams)));
    load(&mut model, Loaded::Accounts(vec![account("bob", Role::Member)]));
    for (screen, action) in [
        (Screen::Accounts, Action::Credit),
        (Screen::Accounts, Action::Remove),
        (Screen::Upstreams, Action::New),
        (Screen::Upstreams, Action::Modify),
        (Screen::Upstreams, Action::ResetUpstream),
        (Screen::Upstreams, Action::Remove),
    ] {
        update(&mut model, Message::Act(Action::Open(screen)));
        update(&mut model, Message::Act(action));
        assert!(model.overlay.is_none() && !model.allows(action), "{action:?}");
        assert!(matches!(&model.notice, Some(Notice::Problem(it)) if it.contains("operators")));
    }
    let tested = update(&mut model, Message::Act(Action::TestUpstream));
    assert!(change(&tested).starts_with("TestUpstream"), "the gateway lets support test it");
    update(&mut model, Message::Act(Action::Open(Screen::Operations)));
    assert!(model.allows(Action::Run));
    update(&mut model, Message::Act(Action::Last));
    assert!(!model.allows(Action::Run), "a backup needs an operator");
}

#[test]
fn only_members_of_the_gateway_have_people() {
    for (role, can) in [(Role::Member, true), (Role::Support, false), (Role::Operator, false)] {
        let mut model = signed_in(role);
        update(&mut model, Message::Act(Action::Open(Screen::People)));
        assert_eq!(model.allows(Action::New), can, "{role:?}");
        update(&mut model, Message::Act(Action::New));
        assert_eq!(model.overlay.is_some(), can, "{role:?}");
    }
    let mut model = signed_in(Role::Operator);
    let others = vec![account("bob", Role::Member), account("eve", Role::Support)];
    load(&mut model, Loaded::Accounts(others));
    for (name, can) in [("bob", true), ("eve", false)] {
        update(&mut model, Message::Act(Action::Open(Screen::Accounts)));
        let steps = model.data.accounts.visible().position(|it| it.name == name).unwrap();
        update(&mut model, Message::Act(Action::Select(steps)));
        update(&mut model, Message::Act(Action::Enter));
        update(&mut model, Message::Act(Action::Move(4)));
        update(&mut model, Message::Act(Action::Submit));
        assert_eq!((model.screen, model.subject()), (Screen::People, Some(name)));
        assert_eq!(model.allows(Action::New), can, "{name}");
    }
}

#[test]
fn a_request_in_flight_is_late_after_the_usual_time_of_its_model() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('5'));
    let record = |index: u32, status| Record {
        id: index.to_string(),
        model: Some("fast".to_owned()),
        status: Some(status),
        duration_ms: Some(f64::from(index) * 100.0),
        ..Record::default()
    };
    let in_flight = |id: &str, name: &str, age_ms| InFlight {
        id: id.to_owned(),
        model: name.to_owned(),
        age_ms,
        ..InFlight::default()
    };
    let requests = vec![
        in_flight("usual", "fast", 1_900.0),
        in_flight("late", "fast", 2_001.0),
        in_flight("unknown", "other", 59_000.0),
        in_flight("old", "other", 61_000.0),
    ];
    let late = |model: &Model| {
        let late = model.data.in_flight.entries.iter().filter(|it| it.is_late());
        late.map(|it| it.id.as_str()).collect::<Vec<_>>().join(" ")
    };
    let tail = |model: &mut Model, records| {
        let batch = LogBatch { restarted: false, records, dropped: 0, live: true };
        update(model, Message::LogReceived(batch));
    };
    load(&mut model, Loaded::InFlight { requests: requests.clone(), has_more: false });
    assert_eq!(late(&model), "old", "nothing is known of either model");
    // A failure after a long time says nothing about answers.
    tail(&mut model, (1..20).map(|it| record(it, RequestStatus::Completed)).collect());
    tail(&mut model, vec![record(9_000, RequestStatus::Failed)]);
    assert_eq!(late(&model), "old", "19 answers are too few");
    tail(&mut model, vec![record(20, RequestStatus::Completed)]);
    assert_eq!(late(&model), "late old");
    load(&mut model, Loaded::InFlight { requests, has_more: false });
    assert_eq!(late(&model), "late old", "after the next fetch, too");
}
