//! Snapshots of every screen in every state, at two sizes. Colours are tested where they carry
//! meaning.

use jiff::Timestamp;
use ratatui::style::{Color, Modifier};
use tui::message::{Loaded, Message};
use tui::model::accounts::{Account, Role};
use tui::model::change::{ChangeOutcome, IssuedSecret, SecretKind};
use tui::model::fetched::{FetchState, Fetched};
use tui::model::operations::{Finding, OperationEvent, Severity};
use tui::model::overlay::Overlay;
use tui::model::people::PersonRole;
use tui::model::record::LogBatch;
use tui::model::sign_in::SignInRefusal;
use tui::model::subscription::Topic;
use tui::model::trial::TrialEvent;
use tui::model::{Action, ConnectionState, Model, Screen};
use tui::theme::{Palette, Theme};
use tui::update::update;

use crate::sample::{
    NOW, Sample, account, act, connecting, draw, fill, open, record, route, sign_in, signed_in,
    write,
};

pub(crate) fn check(name: &str, model: &mut Model) {
    for (width, height) in [(80, 24), (160, 50)] {
        update(model, Message::Resized(width, height));
        let screen = draw(model, (width, height));
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), screen);
    }
}

fn offline() -> ConnectionState {
    let problem =
        "no gateway at `http://127.0.0.1:8081`: start it, or name another with --server".to_owned();
    let retry_at = Timestamp::from_second(NOW + 3).ok();
    ConnectionState::Reconnecting { problem, retry_at }
}

#[test]
fn every_screen_in_every_state() {
    for screen in Screen::openable() {
        for state in [Sample::Empty, Sample::Normal, Sample::Error, Sample::Full] {
            let name = format!("{}_{state:?}", screen.name()).to_lowercase();
            let mut model = open(screen, state);
            check(&name, &mut model);
            for (width, height) in [(100, 30), (120, 36), (220, 60)] {
                update(&mut model, Message::Resized(width, height));
                let screen = draw(&model, (width, height));
                insta::assert_snapshot!(format!("{name}_{width}x{height}"), screen);
            }
        }
    }
}

#[test]
fn the_detail_covers_a_narrow_screen() {
    let screens =
        [Screen::Keys, Screen::Models, Screen::Usage, Screen::Accounts, Screen::Upstreams];
    for screen in screens {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, Action::Move(2));
        act(&mut model, Action::Detail);
        check(&format!("{}_detail", screen.name()), &mut model);
    }
}

#[test]
fn the_way_to_a_screen_is_shown_and_goes_back() {
    let mut model = open(Screen::Accounts, Sample::Normal);
    act(&mut model, Action::Move(1));
    act(&mut model, Action::Enter);
    check("choose", &mut model);
    act(&mut model, Action::Submit);
    fill(&mut model, Sample::Normal);
    check("requests_of_account", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Enter);
    act(&mut model, Action::Move(2));
    act(&mut model, Action::Submit);
    fill(&mut model, Sample::Normal);
    check("ledger_of_account", &mut model);
}

#[test]
fn a_model_is_tried() {
    let mut model = open(Screen::Models, Sample::Normal);
    act(&mut model, Action::Try);
    check("trial_empty", &mut model);
    write(&mut model, "Say hello to a newcomer.");
    act(&mut model, Action::Submit);
    let text = "Hello! 模型 ".repeat(40);
    update(&mut model, Message::Trial(1, TrialEvent::Text(text)));
    check("trial_running", &mut model);
    update(&mut model, Message::Trial(1, TrialEvent::Done));
    update(&mut model, Message::Trial(1, TrialEvent::Recorded(Box::new(record(1)))));
    check("trial_done", &mut model);
    act(&mut model, Action::OpenRecord);
    check("trial_record", &mut model);
    act(&mut model, Action::Submit);
    let problem = "HTTP 429: the balance is spent (insufficient_quota)".to_owned();
    update(&mut model, Message::Trial(2, TrialEvent::Failed(problem)));
    check("trial_failed", &mut model);
}

#[test]
fn rows_are_sorted_marked_and_scrolled_sideways() {
    let mut model = open(Screen::Keys, Sample::Normal);
    act(&mut model, Action::Sort(1));
    act(&mut model, Action::Reverse);
    act(&mut model, Action::Mark);
    act(&mut model, Action::Sideways(2));
    check("keys_arranged", &mut model);
    act(&mut model, Action::Mark);
    act(&mut model, Action::Remove);
    check("confirm_several", &mut model);
}

#[test]
fn nodes_are_shown_with_their_questions() {
    let mut model = open(Screen::Nodes, Sample::Normal);
    let check = |name: &str, model: &mut Model| {
        check(name, model);
        update(model, Message::Resized(120, 36));
        insta::assert_snapshot!(format!("{name}_120x36"), draw(model, (120, 36)));
    };
    check("nodes", &mut model);
    act(&mut model, Action::ToggleDraining);
    check("nodes_drain", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Move(2));
    act(&mut model, Action::Detail);
    check("nodes_detail", &mut model);
    act(&mut model, Action::Remove);
    check("nodes_remove", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Help);
    check("help_nodes", &mut model);
    let mut alone = open(Screen::Nodes, Sample::Empty);
    update(&mut alone, Message::NotLoaded(Topic::Nodes, FetchState::Unsupported));
    check("nodes_alone", &mut alone);
}

#[test]
fn people_are_managed_from_the_account_or_by_its_admins() {
    let mut model = open(Screen::Accounts, Sample::Normal);
    act(&mut model, Action::Open(Screen::People));
    let nobody = Loaded::People { subject: None, people: Vec::new() };
    update(&mut model, Message::Loaded(Box::new(nobody)));
    check("people_as_operator", &mut model);
    act(&mut model, Action::Open(Screen::Accounts));
    // The first account is that of the operator.
    act(&mut model, Action::Move(1));
    act(&mut model, Action::Enter);
    act(&mut model, Action::Move(4));
    act(&mut model, Action::Submit);
    fill(&mut model, Sample::Normal);
    check("people_of_account", &mut model);
    act(&mut model, Action::New);
    write(&mut model, "dave@example.org");
    check("people_add", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Remove);
    check("people_remove", &mut model);
    act(&mut model, Action::Back);
    let secret = IssuedSecret {
        kind: SecretKind::Person,
        label: "dave".into(),
        secret: "tgr-4c3f".into(),
        models: Vec::new(),
    };
    let notice = "`dave` is added, and signs in with the code".to_owned();
    let added = ChangeOutcome { notice, secret: Some(secret), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(added)));
    check("people_code", &mut model);
    let admin = Account {
        person_role: Some(PersonRole::Member),
        ..account(0, Role::Member, Sample::Normal)
    };
    let mut model = signed_in(admin);
    act(&mut model, Action::Open(Screen::People));
    fill(&mut model, Sample::Normal);
    act(&mut model, Action::New);
    check("people_as_member", &mut model);
}

#[test]
fn operations_show_what_runs_and_what_is_found() {
    let mut model = open(Screen::Operations, Sample::Normal);
    let check = |name: &str, model: &mut Model| {
        check(name, model);
        update(model, Message::Resized(120, 36));
        insta::assert_snapshot!(format!("{name}_120x36"), draw(model, (120, 36)));
    };
    act(&mut model, Action::Move(1));
    act(&mut model, Action::Run);
    check("operations_ask", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Last);
    act(&mut model, Action::Run);
    check("operations_backup", &mut model);
    act(&mut model, Action::Submit);
    let run = model.operation_runs;
    let at = Timestamp::from_second(NOW - 7).unwrap();
    for event in [OperationEvent::Started(at), OperationEvent::Copied(12 << 20, 40 << 20)] {
        update(&mut model, Message::Operation(run, event));
    }
    check("operations_copying", &mut model);
    act(&mut model, Action::Run);
    check("operations_runs_already", &mut model);
    act(&mut model, Action::Stop);
    check("operations_stopped", &mut model);
    act(&mut model, Action::First);
    act(&mut model, Action::Run);
    let found = OperationEvent::Found(Finding {
        area: "disk".to_owned(),
        subject: None,
        severity: Severity::Ok,
        text: "212 GiB are free".to_owned(),
        remedy: None,
        elapsed_ms: 1.0,
    });
    let run = model.operation_runs;
    update(&mut model, Message::Operation(run, found));
    act(&mut model, Action::Stop);
    let screen = draw(&model, (120, 36)).to_string();
    assert!(screen.contains("1 check ") && !screen.contains("no problem"), "{screen}");
    act(&mut model, Action::Help);
    check("help_operations", &mut model);
    let mut support = signed_in(account(0, Role::Support, Sample::Normal));
    act(&mut support, Action::Open(Screen::Operations));
    act(&mut support, Action::Last);
    act(&mut support, Action::Run);
    check("operations_as_support", &mut support);
}

#[test]
fn a_route_is_explained() {
    let mut model = open(Screen::Models, Sample::Normal);
    act(&mut model, Action::Explain);
    check("route_asking", &mut model);
    let Some(Overlay::Route(view)) = &model.overlay else { panic!("no route") };
    let id = view.model.clone();
    update(&mut model, Message::RouteExplained(id.clone(), Ok(route())));
    check("route", &mut model);
    update(&mut model, Message::Resized(120, 36));
    insta::assert_snapshot!("route_120x36", draw(&model, (120, 36)));
    let problem = "the model `gone` does not exist".to_owned();
    update(&mut model, Message::RouteExplained(id, Err(problem)));
    check("route_failed", &mut model);
}

#[test]
fn members_see_no_operator_tabs_and_columns() {
    let mut model = signed_in(account(0, Role::Member, Sample::Normal));
    act(&mut model, Action::Open(Screen::Usage));
    fill(&mut model, Sample::Normal);
    check("usage_member", &mut model);
}

#[test]
fn sign_in_masks_the_password() {
    let mut model = sign_in();
    check("sign_in_empty", &mut model);
    write(&mut model, "ada@example.org");
    act(&mut model, Action::Field(1));
    write(&mut model, "geheim");
    check("sign_in_filled", &mut model);
    act(&mut model, Action::Submit);
    check("sign_in_busy", &mut model);
    let refusal = SignInRefusal::of("password", "wrong name or password: type the password again");
    update(&mut model, Message::SignInFailed(refusal));
    check("sign_in_refused", &mut model);
    act(&mut model, Action::ToggleRegistration);
    check("register", &mut model);
}

#[test]
fn sign_in_scrolls_an_overlong_name_to_the_cursor() {
    let mut model = sign_in();
    write(&mut model, &"研究者-".repeat(20));
    write(&mut model, "the-end");
    check("sign_in_overlong", &mut model);
}

#[test]
fn overview_without_data() {
    check("overview_connecting", &mut connecting());
}

#[test]
fn overview_while_disconnected_says_what_to_do() {
    let mut model = connecting();
    update(&mut model, Message::ConnectionChanged(offline()));
    check("overview_offline", &mut model);
}

#[test]
fn an_older_gateway_lacks_only_the_unsupported_panels() {
    let mut model = signed_in(account(0, Role::Member, Sample::Normal));
    fill(&mut model, Sample::Normal);
    model.data.traffic = Fetched::default();
    model.data.overview.limits = Fetched::default();
    for topic in [Topic::Traffic, Topic::Limits] {
        update(&mut model, Message::NotLoaded(topic, FetchState::Unsupported));
    }
    check("overview_older_gateway", &mut model);
}

#[test]
fn stale_data_is_dimmed_and_labelled() {
    let mut model = open(Screen::Keys, Sample::Normal);
    let faded =
        |model: &Model| draw(model, (80, 24)).buffer()[(3, 4)].modifier.contains(Modifier::DIM);
    assert!(!faded(&model));
    update(&mut model, Message::ConnectionChanged(offline()));
    check("keys_stale", &mut model);
    assert!(faded(&model));
    update(&mut model, Message::ConnectionChanged(ConnectionState::Connected));
    assert!(!faded(&model));
}

#[test]
fn the_log_shows_the_number_of_skipped_records() {
    let mut model = open(Screen::Usage, Sample::Normal);
    for (dropped, live) in [(58_000, false), (197, true)] {
        let records = vec![record(31)];
        update(
            &mut model,
            Message::LogReceived(LogBatch { restarted: false, records, dropped, live }),
        );
    }
    check("usage_skipped", &mut model);
    act(&mut model, Action::Move(1));
    act(&mut model, Action::Pause);
    check("usage_skipped_paused", &mut model);
}

#[test]
fn a_suspended_account_sees_a_banner() {
    let mut model = signed_in(account(2, Role::Member, Sample::Normal));
    check("overview_suspended", &mut model);
    act(&mut model, Action::Open(Screen::Keys));
    check("keys_suspended", &mut model);
}

#[test]
fn forms_confirmations_and_secrets() {
    let mut model = open(Screen::Keys, Sample::Normal);
    act(&mut model, Action::New);
    write(&mut model, "laptop");
    check("form_key", &mut model);
    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "laptop".to_owned(),
        secret: secret().into(),
        models: Vec::new(),
    };
    let done = ChangeOutcome {
        notice: "key `laptop` is made".to_owned(),
        secret: Some(made),
        ..ChangeOutcome::default()
    };
    act(&mut model, Action::Submit);
    update(&mut model, Message::Changed(Ok(done)));
    check("secret", &mut model);
    act(&mut model, Action::Copy);
    check("secret_copied", &mut model);
    act(&mut model, Action::Back);
    for size in [(80, 24), (160, 50)] {
        let screen = draw(&model, size).to_string();
        assert!(!screen.contains("sk-tg") && screen.contains("is gone"), "{screen}");
    }
    act(&mut model, Action::Remove);
    check("confirm", &mut model);

    let mut model = open(Screen::Upstreams, Sample::Normal);
    act(&mut model, Action::Modify);
    act(&mut model, Action::Field(1));
    act(&mut model, Action::Field(1));
    check("form_upstream", &mut model);
}

/// Returns a text with the length of a key.
fn secret() -> String {
    format!("sk-tg-d954a5ca9647-{}", "01234567".repeat(7))
}

#[test]
fn palette_filter_and_notices() {
    let mut model = open(Screen::Accounts, Sample::Normal);
    act(&mut model, Action::Palette);
    check("palette", &mut model);
    write(&mut model, "a");
    act(&mut model, Action::Move(1));
    check("palette_typed", &mut model);
    act(&mut model, Action::Back);
    act(&mut model, Action::Filter);
    write(&mut model, "susp");
    check("filter", &mut model);
    act(&mut model, Action::Submit);
    check("filter_kept", &mut model);
    act(&mut model, Action::Filter);
    write(&mut model, "ended by nobody");
    act(&mut model, Action::Submit);
    check("filter_passes_nothing", &mut model);
    let problem = "the gateway says: `bob` is the last operator".to_owned();
    update(&mut model, Message::Changed(Err(problem)));
    check("notice", &mut model);

    let mut model = open(Screen::Usage, Sample::Normal);
    act(&mut model, Action::Filter);
    write(&mut model, "status:failed");
    check("filter_log", &mut model);
    act(&mut model, Action::Submit);
    let problem = "`status:faild`: one of completed, failed".to_owned();
    update(&mut model, Message::NotLoaded(Topic::Log, FetchState::Failed(problem)));
    check("filter_log_refused", &mut model);
}

#[test]
fn help_lists_the_keys_of_the_screen_below() {
    for screen in [Screen::Overview, Screen::Keys, Screen::Usage] {
        let mut model = open(screen, Sample::Normal);
        act(&mut model, Action::Help);
        check(&format!("help_{}", screen.name()), &mut model);
    }
    let mut model = sign_in();
    act(&mut model, Action::Help);
    check("help_sign_in", &mut model);
}

#[test]
fn a_small_terminal_says_what_it_needs() {
    insta::assert_snapshot!(draw(&connecting(), (50, 3)));
}

#[test]
fn narrow_tabs_keep_the_open_tabs_name() {
    let screen = draw(&open(Screen::Usage, Sample::Normal), (62, 20));
    let tabs: String = (0..62).map(|x| screen.buffer()[(x, 1)].symbol()).collect();
    assert_eq!(tabs.trim_end(), " 1  2  3  4 usage  5  6  7  8  9");
}

#[test]
fn each_palette_uses_only_its_own_colours() {
    let is_of = |palette, colour| match palette {
        Palette::Dark | Palette::Light => matches!(colour, Color::Reset | Color::Rgb(..)),
        Palette::Sixteen => !matches!(colour, Color::Rgb(..) | Color::Indexed(_)),
        Palette::Plain => colour == Color::Reset,
    };
    for palette in [Palette::Dark, Palette::Light, Palette::Sixteen, Palette::Plain] {
        for screen in Screen::TABS {
            let mut model = open(screen, Sample::Full);
            model.theme = Theme::new(palette);
            let drawn = draw(&model, (120, 40));
            let cells = &drawn.buffer().content;
            let foreign = cells.iter().find(|it| !is_of(palette, it.fg) || !is_of(palette, it.bg));
            assert!(foreign.is_none(), "{palette:?} {screen:?}: {foreign:?}");
        }
    }
}

#[test]
fn request_statuses_are_coloured() {
    let model = open(Screen::Usage, Sample::Normal);
    let screen = draw(&model, (160, 50));
    let buffer = screen.buffer();
    let colour_of = |word: &str| {
        let row = |y| (0..96).map(|x| buffer[(x, y)].symbol()).collect::<Vec<_>>();
        (16..50).find_map(|y| {
            let at = row(y).windows(word.len()).position(|it| it.concat() == word)?;
            Some(buffer[(u16::try_from(at).unwrap(), y)].fg)
        })
    };
    assert_eq!(colour_of("completed"), Some(Color::Green));
    assert_eq!(colour_of("failed"), Some(Color::Red));
    assert_eq!(colour_of("rejected"), Some(Color::Yellow));
}

#[test]
fn a_click_maps_to_the_element_under_the_pointer() {
    use crossterm::event::{Event, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
    let model = open(Screen::Keys, Sample::Normal);
    let click = |column, row| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let mouse = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        match tui::input::message(&model, &Event::Mouse(mouse)) {
            Some(Message::Act(action)) => Some(action),
            _ => None,
        }
    };
    let screen = draw(&model, (80, 24)).to_string();
    let lines: Vec<_> = screen.lines().map(|line| line.trim_start_matches('"')).collect();
    let tab = lines[1].find("3 models").unwrap();
    assert_eq!(click(u16::try_from(tab).unwrap(), 1), Some(Action::Open(Screen::Models)));
    let row = lines.iter().position(|line| line.contains("laptop-1")).unwrap();
    assert_eq!(click(5, u16::try_from(row).unwrap()), Some(Action::Select(1)));
    for (column, row) in [(5, 0), (5, 2), (5, 3), (5, 7), (5, 23), (200, 99)] {
        assert_eq!(click(column, row), None, "at {column}, {row}");
    }
}
