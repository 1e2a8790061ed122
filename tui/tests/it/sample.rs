//! Sample models: empty, normal, with errors, and with oversized values.

mod data;
mod operations;
mod usage;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tui::message::{Loaded, Message};
use tui::model::accounts::{Account, Role};
use tui::model::fetched::FetchState;
use tui::model::operations::OperationEvent;
use tui::model::record::LogBatch;
use tui::model::subscription::Topic;
use tui::model::usage::Range;
use tui::model::{Action, ConnectionState, Model, Screen};
use tui::theme::{Palette, Theme};
use tui::update::update;
use tui::view;

pub(crate) use self::data::{account, catalogue_model, key, overlong_record, record};
pub(crate) use self::operations::route;

/// The time at which samples are drawn.
pub(crate) const NOW: i64 = 1_795_010_000;

/// The kind of sample data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// A new account on a new gateway.
    Empty,
    /// Some history.
    Normal,
    /// All fetches failed.
    Error,
    /// More and longer values than fit on the screen.
    Full,
}

pub(crate) fn sign_in() -> Model {
    let theme = Theme::new(Palette::Sixteen);
    let mut model = Model::new("http://127.0.0.1:8081".to_owned(), None, TimeZone::UTC, theme);
    update(&mut model, Message::Tick(Timestamp::from_second(NOW).unwrap()));
    model
}

pub(crate) fn connecting() -> Model {
    let mut model = sign_in();
    update(&mut model, Message::TokenFound("token".into()));
    model
}

/// Returns a model with `account` signed in.
pub(crate) fn signed_in(account: Account) -> Model {
    let mut model = connecting();
    load(&mut model, Loaded::Account(account));
    update(&mut model, Message::ConnectionChanged(ConnectionState::Connected));
    model
}

/// Returns a model with an operator signed in, `screen` open, and sample data. On the screen with the
/// people of the account, a member is signed in, because the account of an operator has none.
pub(crate) fn open(screen: Screen, state: Sample) -> Model {
    let role = if screen == Screen::People { Role::Member } else { Role::Operator };
    let mut model = signed_in(account(0, role, state));
    act(&mut model, Action::Open(screen));
    fill(&mut model, state);
    model
}

/// Fills `model` with sample data.
pub(crate) fn fill(model: &mut Model, state: Sample) {
    let count = match state {
        Sample::Error => return fail(model),
        Sample::Empty => 0,
        Sample::Normal => 3,
        Sample::Full => 200,
    };
    let many = 0..count;
    load(model, Loaded::Limits { account: None, limits: data::limits(state) });
    for range in [Range::Day, Range::Month] {
        let filter = model.data.usage.filter.clone();
        load(model, Loaded::Usage { range, filter, usage: usage::usage(state, range) });
    }
    let (range, filter) = (model.data.usage.range, model.data.usage.filter.clone());
    load(model, Loaded::UsageBefore { range, filter, usage: usage::usage(state, range) });
    load(model, Loaded::Keys(many.clone().map(|it| key(it, state)).collect()));
    load(model, Loaded::Models(many.clone().map(|it| data::catalogue_model(it, state)).collect()));
    let accounts = many.clone().map(|it| account(it, Role::Member, state)).collect();
    load(model, Loaded::Accounts(accounts));
    load(model, Loaded::Upstreams(many.clone().map(|it| data::upstream(it, state)).collect()));
    load(model, Loaded::Health(many.clone().map(|it| data::health(it, state)).collect()));
    load(model, Loaded::Plans(many.clone().map(|it| data::plan(it, state)).collect()));
    let subject = model.trail.last().and_then(|visit| visit.subject.clone());
    let entries = many.clone().map(|it| data::entry(it, state)).collect();
    load(
        model,
        Loaded::Audit { subject: subject.clone(), entries, has_more: state == Sample::Full },
    );
    let entries = many.clone().map(|it| data::ledger_entry(it, state)).collect();
    load(model, Loaded::Ledger { subject: subject.clone(), entries, has_more: false });
    let people = many.clone().map(|it| data::person(it, state)).collect();
    load(model, Loaded::People { subject, people });
    // Their tab exists only if there are any, and leaves no room for the names of all tabs.
    if model.screen == Screen::Nodes {
        load(model, Loaded::Nodes(many.map(|it| data::node(it, state)).collect()));
    }
    load(model, Loaded::Invites((0..count).map(|it| data::invite(it, state)).collect()));
    load(model, Loaded::Sessions((0..count).map(|it| data::session(it, state)).collect()));
    let requests = (0..count).map(|it| data::in_flight(it, state)).collect();
    load(model, Loaded::InFlight { requests, has_more: state == Sample::Full });
    if model.screen == Screen::Operations && state != Sample::Empty {
        run_operations(model, state);
    }
    load(model, Loaded::Traffic(data::traffic(state)));
    let records = (0..count * 10).map(|it| match state {
        Sample::Full => overlong_record(it),
        _ => record(it),
    });
    let batch = LogBatch { restarted: true, records: records.collect(), dropped: 0, live: true };
    update(model, Message::LogReceived(batch));
}

/// Runs the diagnosis and the verification, which end in the state.
fn run_operations(model: &mut Model, state: Sample) {
    let times = [NOW - 130, NOW - 120].map(|at| Timestamp::from_second(at).unwrap());
    let events = [operations::findings(state), vec![operations::verified(state)]];
    for (row, events) in [0, 2].into_iter().zip(events) {
        act(model, Action::First);
        act(model, Action::Move(row));
        act(model, Action::Run);
        let result = match state {
            Sample::Error => Err("the gateway went away".to_owned()),
            _ => Ok(()),
        };
        let first = OperationEvent::Started(times[0]);
        let last = OperationEvent::Ended(times[1], result);
        for event in [first].into_iter().chain(events).chain([last]) {
            update(model, Message::Operation(model.operation_runs, event));
        }
    }
    act(model, Action::First);
}

fn fail(model: &mut Model) {
    if model.screen == Screen::Operations {
        run_operations(model, Sample::Error);
    }
    let problem = "the gateway says: the database is locked by another process".to_owned();
    for topic in [
        Topic::Limits,
        Topic::Usage,
        Topic::Keys,
        Topic::Models,
        Topic::Accounts,
        Topic::Upstreams,
        Topic::Plans,
        Topic::Audit,
        Topic::Ledger,
        Topic::Nodes,
        Topic::Invites,
        Topic::People,
        Topic::Sessions,
        Topic::InFlight,
        Topic::Log,
    ] {
        update(model, Message::NotLoaded(topic, FetchState::Failed(problem.clone())));
    }
    update(model, Message::NotLoaded(Topic::Traffic, FetchState::Unsupported));
}

pub(crate) fn load(model: &mut Model, loaded: Loaded) {
    update(model, Message::Loaded(Box::new(loaded)));
}

pub(crate) fn act(model: &mut Model, action: Action) {
    update(model, Message::Act(action));
}

pub(crate) fn write(model: &mut Model, text: &str) {
    for letter in text.chars() {
        act(model, Action::Type(tui_input::InputRequest::InsertChar(letter)));
    }
}

/// Draws `model` at this terminal size.
pub(crate) fn draw(model: &Model, (width, height): (u16, u16)) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        view::render(model, frame.buffer_mut(), area);
    });
    drawn.unwrap();
    terminal.backend().clone()
}
