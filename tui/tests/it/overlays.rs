//! Snapshots of the chart and of choices from a list.

use tui::message::{Loaded, Message};
use tui::model::accounts::Role;
use tui::model::error_code::meaning;
use tui::model::overlay::Overlay;
use tui::model::record::Totals;
use tui::model::traffic::{LimitKind, LimitScope, LimitUse};
use tui::model::trial::TrialEvent;
use tui::model::usage::{Period, Usage};
use tui::model::{Action, Screen};
use tui::update::update;
use tui_input::InputRequest;

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
fn the_values_of_a_field_do_not_cover_the_problem_of_the_form() {
    for (screen, action, offer) in
        [(Screen::Accounts, Action::SetPlan, "free"), (Screen::Models, Action::New, "local")]
    {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, action);
        if action == Action::New {
            write(&mut model, "llama");
            act(&mut model, Action::Field(1));
        }
        act(&mut model, Action::Type(InputRequest::DeleteFromStart));
        act(&mut model, Action::Submit);
        let Some(Overlay::Form(form)) = &model.overlay else { panic!("no form") };
        let problem: String = form.problem.iter().flat_map(|it| it.chars()).take(25).collect();
        act(&mut model, Action::Pick(1));
        for size in [(60, 16), (80, 24), (160, 50)] {
            update(&mut model, Message::Resized(size.0, size.1));
            let screen = draw(&model, size).to_string();
            assert!(screen.contains(&problem) && !problem.is_empty(), "{problem}: {screen}");
            assert!(screen.contains(offer) && screen.contains("Tab takes it"), "{screen}");
        }
    }
}

#[test]
fn details_say_what_is_used_of_limits() {
    let spending = LimitUse {
        scope: Some(LimitScope::Key),
        subject: key(0, Sample::Normal).id,
        kind: Some(LimitKind::Spending),
        limit: 200_000,
        used: 192_500,
        observed: false,
        resets_at: None,
    };
    let used_up = LimitUse { used: 200_000, ..spending.clone() };
    for (screen, label) in
        [(Screen::Keys, "spending cap  "), (Screen::Accounts, "spending laptop: ")]
    {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, Action::Detail);
        for (limit, text) in
            [(&spending, "$0.000192 of $0.0002"), (&used_up, "$0.0002 of $0.0002: used up")]
        {
            let account = Some("ada".to_owned());
            load(&mut model, Loaded::Limits { account, limits: vec![limit.clone()] });
            let drawn = draw(&model, (160, 50)).to_string();
            assert!(drawn.contains(&format!("{label}{text}")), "{text}: {drawn}");
        }
        let account = Some("bob".to_owned());
        load(&mut model, Loaded::Limits { account, limits: vec![used_up.clone()] });
        let drawn = draw(&model, (160, 50)).to_string();
        assert!(!drawn.contains("used up"), "those of another account: {drawn}");
    }
}

#[test]
fn the_detail_of_a_suspended_account_has_the_reason() {
    let mut model = open(Screen::Accounts, Sample::Normal);
    act(&mut model, Action::Last);
    act(&mut model, Action::Detail);
    assert!(draw(&model, (160, 50)).to_string().contains("in its audit log"));
    for (name, shown) in [("ada", false), ("ada-2", true)] {
        let (account, reason) = (name.to_owned(), Some("unpaid invoice".to_owned()));
        load(&mut model, Loaded::Suspension { account, reason });
        let drawn = draw(&model, (160, 50)).to_string();
        assert_eq!(drawn.contains("unpaid invoice"), shown, "{drawn}");
    }
}

/// Every error code in the manual has a meaning in the detail of a request.
#[test]
fn each_error_code_is_explained() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway/README.md");
    let manual = std::fs::read_to_string(path).unwrap();
    let (_, table) = manual.split_once("## Error codes").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")).skip(2);
    let codes: Vec<_> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(codes.len() > 30, "{codes:?}");
    for code in codes {
        assert!(meaning(code).is_some(), "{code}");
    }
    let limited = meaning("rate_limit_exceeded").unwrap();
    assert!(limited.contains("in flight hold what is left of the balance"), "{limited}");
    assert!(limited.contains("smaller `max_tokens`"), "what to do: {limited}");
}

#[test]
fn refused_requests_are_charted_although_they_have_no_tokens() {
    let mut model = open(Screen::Usage, Sample::Normal);
    let range = model.data.usage.range;
    let totals = Totals { requests: 7, errors: 7, ..Totals::default() };
    let start = jiff::Timestamp::from_second(1_795_000_000).unwrap();
    let usage = Usage {
        totals: totals.clone(),
        by_model: vec![("llama".to_owned(), totals.clone())],
        series: vec![Period { start, totals }],
        ..Usage::default()
    };
    load(&mut model, Loaded::Usage { range, filter: String::new(), usage });
    let drawn = draw(&model, (120, 36)).to_string();
    for text in ["Requests/h · max 7", "Requests by model"] {
        assert!(drawn.contains(text), "{text}: {drawn}");
    }
    assert!(drawn.lines().any(|it| it.contains("llama ███") && it.contains("█ 7 │")), "{drawn}");
}

#[test]
fn a_form_shows_its_command_before_anything_is_typed() {
    for (screen, action, command) in [
        (Screen::Keys, Action::Rotate, "ctl key rotate d954a5ca0000 --overlap 1d"),
        (Screen::Invites, Action::New, "ctl account invite --ttl 7d"),
    ] {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, action);
        let drawn = draw(&model, (120, 36)).to_string();
        assert!(drawn.contains(&format!("= {command}")), "{command}: {drawn}");
    }
    // There is no command that changes nothing.
    for screen in [Screen::Keys, Screen::Models] {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, Action::Modify);
        let drawn = draw(&model, (120, 36)).to_string();
        assert!(drawn.contains("Edit ") && !drawn.contains("= ctl"), "{drawn}");
    }
}

#[test]
fn a_failed_trial_says_what_to_do_next() {
    let start = "Start the server at http://10.0.0.0:8000/v1";
    let cause = "The server of `local` at http://10.0.0.0:8000/v1 is the cause: Esc, then 7";
    let next = "Ctrl-N, then Enter, asks";
    let quota = "The overview (Esc, then 1) shows what is used up";
    for (problem, advice) in [
        ("HTTP 502: it cannot be reached (upstream_unreachable)", &[start, next][..]),
        ("HTTP 504: the upstream timed out (upstream_timeout)", &[cause, next]),
        ("HTTP 429: too many requests (rate_limit_exceeded)", &[next]),
        ("HTTP 429: the balance is used up (insufficient_quota)", &[quota]),
        ("this account is suspended and can change nothing", &[]),
    ] {
        let mut model = open(Screen::Models, Sample::Normal);
        act(&mut model, Action::Try);
        write(&mut model, "Say hi");
        act(&mut model, Action::Submit);
        update(&mut model, Message::Trial(1, TrialEvent::Failed(problem.to_owned())));
        let drawn = draw(&model, (160, 50)).to_string();
        for text in [start, cause, next, quota] {
            assert_eq!(drawn.contains(text), advice.contains(&text), "{problem}: {drawn}");
        }
    }
}

#[test]
fn hints_of_fields_are_never_cut() {
    let forms = [
        (Screen::Keys, Action::New),
        (Screen::Keys, Action::Modify),
        (Screen::Keys, Action::Rotate),
        (Screen::Models, Action::New),
        (Screen::Usage, Action::Jump),
        (Screen::Usage, Action::Password),
        (Screen::Accounts, Action::Credit),
        (Screen::Accounts, Action::ToggleSuspension),
        (Screen::Accounts, Action::SetPlan),
        (Screen::Accounts, Action::Rename),
        (Screen::Upstreams, Action::New),
        (Screen::Plans, Action::New),
        (Screen::Invites, Action::New),
        (Screen::People, Action::New),
    ];
    for (screen, action) in forms {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, Action::Move(1));
        act(&mut model, action);
        let Some(Overlay::Form(form)) = &model.overlay else { panic!("{screen:?} {action:?}") };
        let drawn = draw(&model, (80, 24)).to_string();
        for field in form.fields.iter().filter(|it| it.input.value().is_empty()) {
            assert!(drawn.contains(field.hint), "{}: {drawn}", field.hint);
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
fn the_title_of_a_drill_down_names_what_was_added_to_its_filter() {
    let mut model = open(Screen::Overview, Sample::Normal);
    act(&mut model, Action::Enter);
    act(&mut model, Action::Filter);
    write(&mut model, " error:upstream_timeout");
    act(&mut model, Action::Submit);
    let drawn = draw(&model, (100, 30)).to_string();
    let title = "overview › errors › Requests by end · /error:upstream_timeout · following";
    assert!(drawn.contains(title), "{drawn}");
    assert!(model.data.usage.filter.contains("since:1h error:"), "{}", model.data.usage.filter);
    fill(&mut model, Sample::Normal);
    act(&mut model, Action::Sort(1));
    let drawn = draw(&model, (100, 30)).to_string();
    assert!(drawn.contains("› errors › Requests · "), "in another order: {drawn}");
}

#[test]
fn the_log_beside_a_detail_keeps_accounts_and_errors() {
    let mut model = open(Screen::Usage, Sample::Normal);
    act(&mut model, Action::Detail);
    update(&mut model, Message::Resized(120, 36));
    let drawn = draw(&model, (120, 36)).to_string();
    assert!(drawn.contains("Request · Esc closes"), "{drawn}");
    let has_both = |line: &str| line.contains(" account ") && line.contains(" error ");
    assert!(drawn.lines().any(has_both) && drawn.contains(" upstream_timeout "), "{drawn}");
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
