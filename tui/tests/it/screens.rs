//! Every screen in every state, at two sizes; colours only where they carry meaning.

use ratatui::style::{Color, Modifier};
use tui::keymap::Action;
use tui::message::Message;
use tui::model::{Link, Model};
use tui::theme::Theme;
use tui::update::update;
use tui_input::InputRequest;

use crate::sample::{
    connecting, draw, empty_snapshot, overlong, overview, records, sign_in, snapshot,
};

fn check(name: &str, model: &Model) {
    for (width, height) in [(80, 24), (120, 40)] {
        let screen = draw(model, (width, height));
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), screen);
    }
}

fn act(model: &mut Model, action: Action) {
    update(model, Message::Act(action));
}

fn write(model: &mut Model, text: &str) {
    for letter in text.chars() {
        act(model, Action::Edit(InputRequest::InsertChar(letter)));
    }
}

fn offline() -> Link {
    let problem =
        "no gateway at `http://127.0.0.1:8081`: start it, or name another with --server".to_owned();
    Link::Reconnecting { problem }
}

#[test]
fn sign_in_masks_the_password() {
    let mut model = sign_in();
    check("sign_in_empty", &model);
    write(&mut model, "ada@example.org");
    act(&mut model, Action::NextField);
    write(&mut model, "geheim");
    check("sign_in_filled", &model);
    act(&mut model, Action::Submit);
    check("sign_in_busy", &model);
    let problem = "wrong name or password: type the password again".to_owned();
    update(&mut model, Message::SignInFailed(problem));
    check("sign_in_refused", &model);
}

#[test]
fn sign_in_keeps_the_cursor_of_an_overlong_name_in_sight() {
    let mut model = sign_in();
    write(&mut model, &"研究者-".repeat(20));
    write(&mut model, "the-end");
    check("sign_in_overlong", &model);
}

#[test]
fn overview_before_anything_is_known() {
    check("overview_connecting", &connecting());
}

#[test]
fn overview_of_a_new_account() {
    check("overview_empty", &overview(empty_snapshot(), Vec::new()));
}

#[test]
fn overview_of_an_account_with_history() {
    check("overview_normal", &overview(snapshot(), records(50)));
}

#[test]
fn overview_scrolled_to_the_oldest_request() {
    let mut model = overview(snapshot(), records(50));
    act(&mut model, Action::Last);
    act(&mut model, Action::Move(-1));
    check("overview_scrolled", &model);
}

#[test]
fn overview_that_is_stale_says_so_and_fades() {
    let mut model = overview(snapshot(), records(5));
    update(&mut model, Message::LinkChanged(offline()));
    check("overview_stale", &model);
    let cell = draw(&model, (80, 24)).buffer()[(3, 5)].clone();
    assert!(cell.modifier.contains(Modifier::DIM));
    update(&mut model, Message::LinkChanged(Link::Live));
    let cell = draw(&model, (80, 24)).buffer()[(30, 12)].clone();
    assert!(!cell.modifier.contains(Modifier::DIM));
}

#[test]
fn overview_that_never_got_an_answer_says_what_to_do() {
    let mut model = connecting();
    update(&mut model, Message::LinkChanged(offline()));
    check("overview_error", &model);
}

#[test]
fn overlong_and_wide_texts_keep_to_their_columns() {
    check("overview_overlong", &overlong());
}

#[test]
fn help_lists_the_keys_of_the_screen_below() {
    let mut model = overview(snapshot(), records(5));
    act(&mut model, Action::ToggleHelp);
    check("help_overview", &model);
    let mut model = sign_in();
    act(&mut model, Action::ToggleHelp);
    check("help_sign_in", &model);
}

#[test]
fn a_small_terminal_says_what_it_needs() {
    insta::assert_snapshot!(draw(&connecting(), (50, 3)));
}

#[test]
fn without_colours_there_are_none() {
    for mut model in [overlong(), overview(snapshot(), records(50)), sign_in()] {
        model.theme = Theme::plain();
        let screen = draw(&model, (120, 40));
        let coloured = |color: Color| color != Color::Reset;
        let cells = &screen.buffer().content;
        assert!(!cells.iter().any(|cell| coloured(cell.fg) || coloured(cell.bg)));
    }
}
