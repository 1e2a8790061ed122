//! Snapshots of the chart and of choices from a list.

use tui::message::{Loaded, Message};
use tui::model::accounts::Role;
use tui::model::first_steps::FirstSteps;
use tui::model::overlay::Overlay;
use tui::model::record::LogBatch;
use tui::model::{Action, Screen};
use tui::update::update;

use crate::sample::{Sample, account, act, draw, fill, key, load, open, signed_in, write};
use crate::screens::check;

#[test]
fn the_chart_shows_each_measure_with_the_values_under_the_cursor() {
    for state in [Sample::Empty, Sample::Normal, Sample::Full] {
        let mut model = open(Screen::Usage, state);
        act(&mut model, Action::Chart);
        for name in ["tokens", "requests", "cost", "latency"] {
            act(&mut model, Action::Move(-5));
            check(&format!("chart_{name}_{state:?}").to_lowercase(), &mut model);
            act(&mut model, Action::Measure(1));
        }
    }
    let mut model = open(Screen::Usage, Sample::Normal);
    act(&mut model, Action::Chart);
    act(&mut model, Action::Range(2));
    fill(&mut model, Sample::Normal);
    act(&mut model, Action::Move(-3));
    check("chart_month", &mut model);
    act(&mut model, Action::Submit);
    fill(&mut model, Sample::Normal);
    check("requests_of_period", &mut model);
    assert_eq!(model.data.usage.filter, "since:2026-11-15T00:00:00Z until:2026-11-16T00:00:00Z");
    act(&mut model, Action::Back);
    assert_eq!((model.screen, model.data.usage.filter.as_str()), (Screen::Usage, ""));
}

#[test]
fn another_price_shows_what_it_would_have_cost() {
    let mut model = open(Screen::Models, Sample::Normal);
    act(&mut model, Action::Modify);
    act(&mut model, Action::Field(5));
    write(&mut model, "5");
    check("form_prices", &mut model);
    let Some(Overlay::Form(form)) = &model.overlay else { panic!("no form") };
    assert!(form.preview.as_ref().unwrap().contains("instead of"), "{:?}", form.preview);
}

#[test]
fn fields_offer_what_is_known() {
    let mut model = open(Screen::Accounts, Sample::Normal);
    act(&mut model, Action::SetPlan);
    act(&mut model, Action::Pick(1));
    check("form_plan", &mut model);
    let mut model = open(Screen::Keys, Sample::Full);
    act(&mut model, Action::New);
    act(&mut model, Action::Field(1));
    check("form_models", &mut model);
    let mut model = signed_in(account(0, Role::Operator, Sample::Normal));
    act(&mut model, Action::Open(Screen::Invites));
    act(&mut model, Action::New);
    act(&mut model, Action::Field(1));
    check("form_loading", &mut model);
}

#[test]
fn the_problem_of_a_long_form_is_visible_in_the_smallest_terminal() {
    for screen in [Screen::Keys, Screen::Models, Screen::Plans, Screen::Upstreams] {
        let mut model = open(screen, Sample::Normal);
        update(&mut model, Message::Resized(60, 16));
        act(&mut model, Action::New);
        act(&mut model, Action::Submit);
        let Some(Overlay::Form(form)) = &model.overlay else { panic!("no form") };
        let problem = form.problem.clone().unwrap();
        let screen = draw(&model, (60, 16)).to_string();
        assert!(screen.contains(&problem), "{problem}: {screen}");
        for field in &form.fields {
            assert!(screen.contains(field.label), "{}: {screen}", field.label);
        }
    }
}

#[test]
fn the_help_shows_what_a_search_finds() {
    let mut model = open(Screen::Accounts, Sample::Normal);
    act(&mut model, Action::Help);
    act(&mut model, Action::Filter);
    write(&mut model, "plan");
    act(&mut model, Action::Move(1));
    check("help_search", &mut model);
    write(&mut model, " of nothing");
    check("help_search_nothing", &mut model);
}

#[test]
fn a_search_for_words_says_how_many_requests_it_has_read() {
    let mut model = open(Screen::Usage, Sample::Normal);
    act(&mut model, Action::Filter);
    write(&mut model, "no-such-word");
    act(&mut model, Action::Submit);
    fill(&mut model, Sample::Normal);
    let screen = draw(&model, (120, 36)).to_string();
    assert!(screen.contains("/no-such-word · following · 0 in 30 searched"), "{screen}");
}

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
    let records = vec![crate::sample::record(0)];
    let batch = LogBatch { restarted: true, records, dropped: 0, live: true };
    update(&mut model, Message::LogReceived(batch));
    let steps = draw(&model, (80, 24)).to_string();
    assert!(steps.contains("4 shows your request in the log"), "{steps}");
    act(&mut model, Action::HideFirstSteps);
    let steps = draw(&model, (80, 24)).to_string();
    assert!(!steps.contains("First steps"), "{steps}");
}

#[test]
fn choices_of_columns_values_and_themes() {
    let mut model = open(Screen::Keys, Sample::Normal);
    act(&mut model, Action::Columns);
    act(&mut model, Action::Move(3));
    act(&mut model, Action::Mark);
    act(&mut model, Action::Shift(-1));
    check("columns", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::CopyValue);
    check("values", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Theme);
    check("themes", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Filter);
    write(&mut model, "state:");
    act(&mut model, Action::Complete);
    check("filter_completion", &mut model);
    act(&mut model, Action::Submit);
    act(&mut model, Action::Filter);
    act(&mut model, Action::SaveFilter);
    act(&mut model, Action::Move(-1));
    check("filter_recalled", &mut model);
}

#[test]
fn only_a_count_of_30_days_is_called_one() {
    let mut model = open(Screen::Usage, Sample::Normal);
    let loaded = model.data.log.records.len() as u64;
    for (matching, is_shown) in
        [(None, false), (Some(loaded - 1), false), (Some(loaded), true), (Some(loaded + 1), true)]
    {
        model.data.log.matching = matching;
        let drawn = draw(&model, (160, 50)).to_string();
        assert!(drawn.contains("following"), "{drawn}");
        assert_eq!(drawn.contains("in 30 days"), is_shown, "{matching:?}: {drawn}");
    }
}

/// Every column that a table shows can be chosen.
#[test]
fn tables_show_the_columns_that_can_be_chosen() {
    for screen in Screen::openable() {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, Action::Columns);
        let Some(Overlay::Columns(choice)) = &model.overlay else { continue };
        let titles = choice.titles.clone();
        act(&mut model, Action::Back);
        let drawn = draw(&model, (400, 40)).to_string();
        let has_all = |line: &str| titles.iter().all(|title| line.contains(title));
        assert!(drawn.lines().any(has_all), "{titles:?} are not all in\n{drawn}");
    }
}
