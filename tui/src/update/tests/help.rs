//! Tests of the search in the help, and of what a row runs.

use super::*;
use tui_input::Input;

use crate::keymap::help::{self, HelpRow};
use crate::model::overlay::Help;

/// Returns the rows that a search finds.
fn help(model: &Model, query: &str) -> Vec<HelpRow> {
    help::help(model, &Help { input: Input::new(query.to_owned()), ..Help::default() })
}

/// Returns the descriptions of the rows.
fn texts(rows: &[HelpRow]) -> Vec<&'static str> {
    rows.iter().map(|row| row.binding.help).collect()
}

/// Returns what the open help shows.
fn shown(model: &Model) -> Vec<HelpRow> {
    match &model.overlay {
        Some(Overlay::Help(open)) => help::help(model, open),
        other => panic!("no help: {other:?}"),
    }
}

/// Returns what the open help searches.
fn query(model: &Model) -> &str {
    match &model.overlay {
        Some(Overlay::Help(open)) => open.input.value(),
        other => panic!("no help: {other:?}"),
    }
}

#[test]
fn the_keys_of_the_screen_come_first_and_those_of_others_last() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('2'));
    let places: Vec<_> = help(&model, "").into_iter().map(|row| row.place).collect();
    assert_eq!(places[0], "keys");
    let everywhere = places.iter().position(|it| it == "everywhere").unwrap();
    let other = places.iter().position(|it| it == "accounts").unwrap();
    assert!(everywhere < other, "{places:?}");
    assert!(places[..everywhere].iter().all(|place| place == "keys"));
}

#[test]
fn finds_keys_words_commands_and_places() {
    let model = signed_in(Role::Operator);
    assert_eq!(texts(&help(&model, "?"))[0], "help", "the key itself comes first");
    assert_eq!(texts(&help(&model, ":credit"))[0], "add to its balance");
    assert_eq!(texts(&help(&model, "balance ADD")), ["add to its balance"]);
    assert_eq!(texts(&help(&model, "accounts another plan")), ["put it on another plan"]);
    assert!(help(&model, "no such thing").is_empty());
}

#[test]
fn only_what_the_account_may_do_is_listed() {
    let member = signed_in(Role::Member);
    for (query, count) in [("add to its balance", 0), ("new model", 0), ("new key", 1)] {
        assert_eq!(help(&member, query).len(), count, "{query}");
    }
    assert!(help(&signed_in(Role::Operator), "new model").len() == 1);
    let sign_in = help(&model(), "");
    assert!(sign_in.iter().all(|row| row.is_here), "{sign_in:?}");
}

#[test]
fn typing_searches_and_escape_ends_the_search_before_the_help() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('?'));
    let all = shown(&model).len();
    for typed in ["rev", "journal", "key", "go", "Gateway"] {
        write(&mut model, typed);
        assert_eq!(query(&model), typed);
        assert!(shown(&model).len() < all);
        press(&mut model, KeyCode::Esc);
        assert_eq!(shown(&model).len(), all);
    }
    press(&mut model, KeyCode::Char('/'));
    write(&mut model, "jkq");
    assert!(shown(&model).is_empty(), "in a search, every letter is text");
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('q'));
    assert!(model.overlay.is_none());
}

#[test]
fn a_row_runs_or_opens_its_screen() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('?'));
    write(&mut model, "choose a theme");
    press(&mut model, KeyCode::Enter);
    assert!(matches!(model.overlay, Some(Overlay::Themes(_))), "{:?}", model.overlay);
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('?'));
    write(&mut model, ":credit");
    press(&mut model, KeyCode::Enter);
    assert_eq!((model.screen, model.overlay.is_none()), (Screen::Accounts, true));
}

#[test]
fn enter_keeps_the_help_open_if_there_is_nothing_to_run() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('?'));
    write(&mut model, "no such thing");
    press(&mut model, KeyCode::Enter);
    assert_eq!(query(&model), "no such thing");
    press(&mut model, KeyCode::Esc);
    // Forms and the sign-in screen have it, which cannot be opened by hand.
    write(&mut model, "previous field");
    press(&mut model, KeyCode::Enter);
    assert_eq!((model.screen, query(&model)), (Screen::Overview, "previous field"));
    assert!(matches!(&model.notice, Some(Notice::Problem(it)) if it.ends_with("forms")));
}

#[test]
fn the_help_names_each_place_once_and_only_those_that_can_be_reached() {
    let operator = signed_in(Role::Operator);
    let rows = help(&operator, "run the row");
    assert_eq!(rows.iter().map(|it| &*it.place).collect::<Vec<_>>(), ["help"]);
    let has = |model: &Model, place: &str| help(model, "").iter().any(|row| row.place == place);
    let mut member = signed_in(Role::Member);
    for place in ["routes", "related rows"] {
        assert!(has(&operator, place) && !has(&member, place), "{place}");
    }
    for place in ["questions", "secrets", "trying a model"] {
        assert!(has(&member, place), "{place}");
    }
    member.is_read_only = true;
    for place in ["questions", "secrets", "trying a model"] {
        assert!(!has(&member, place), "{place}");
    }
}

#[test]
fn the_cursor_stays_within_the_rows() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('?'));
    for _ in 0..30 {
        press(&mut model, KeyCode::PageDown);
    }
    press(&mut model, KeyCode::Up);
    let Some(Overlay::Help(open)) = &model.overlay else { panic!("no help") };
    assert_eq!(open.selected, shown(&model).len() - 2);
}

#[test]
fn other_words_find_what_does_it() {
    let operator = signed_in(Role::Operator);
    for (words, command) in [
        ("backup", "operations"),
        ("doctor", "operations"),
        ("register", "invites"),
        ("log out", "sign-out"),
        ("login", "sessions"),
        ("money", "credit"),
        ("kill", "cancel"),
        ("routing", "route"),
    ] {
        let rows = help(&operator, words);
        assert!(rows.iter().any(|row| row.binding.command == Some(command)), "{words}: {rows:?}");
    }
    let found = crate::keymap::commands(&operator, "ledger doctor");
    assert!(found.iter().any(|row| row.command == Some("operations")), "{found:?}");
    let found = crate::keymap::commands(&operator, "backup");
    assert_eq!(found.first().and_then(|row| row.command), Some("operations"));
    // A synonym is found only by its beginning.
    let found = crate::keymap::commands(&operator, "ickup");
    assert!(found.is_empty() && help(&operator, "ickup").is_empty(), "{found:?}");
}

#[test]
fn the_help_above_a_form_keeps_the_form() {
    let mut model = signed_in(Role::Operator);
    press(&mut model, KeyCode::Char('2'));
    press(&mut model, KeyCode::Char('n'));
    write(&mut model, "ci");
    press(&mut model, KeyCode::F(1));
    assert_eq!(shown(&model)[0].place, "forms");
    write(&mut model, "overview");
    press(&mut model, KeyCode::Enter);
    assert!(matches!(&model.notice, Some(Notice::Problem(text)) if text.contains("form")));
    press(&mut model, KeyCode::Esc);
    write(&mut model, "next offered value");
    press(&mut model, KeyCode::Enter);
    let Some(Overlay::Form(form)) = &model.overlay else { panic!("{:?}", model.overlay) };
    assert_eq!((form.text("label"), form.current), ("ci", 1));
    press(&mut model, KeyCode::F(1));
    press(&mut model, KeyCode::Esc);
    assert!(matches!(&model.overlay, Some(Overlay::Form(form)) if form.text("label") == "ci"));
}
