//! Models to draw: an account with some history, and one where everything is too long.

use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tui::message::Message;
use tui::model::Link;
use tui::model::Model;
use tui::model::record::{
    Account, Limits, Record, Role, Snapshot, Status, Tailed, Tokens, Totals, Usage,
};
use tui::theme::Theme;
use tui::update::update;
use tui::view;

pub(crate) fn sign_in() -> Model {
    Model::new("http://127.0.0.1:8081".to_owned(), TimeZone::UTC, Theme::colourful())
}

pub(crate) fn connecting() -> Model {
    let mut model = sign_in();
    update(&mut model, Message::TokenFound("token".into()));
    model
}

pub(crate) fn overview(snapshot: Snapshot, records: Vec<Record>) -> Model {
    let mut model = connecting();
    update(&mut model, Message::Loaded(Box::new(snapshot)));
    update(&mut model, Message::LinkChanged(Link::Live));
    let tailed = Tailed { restarted: true, records, dropped: 0, live: true };
    update(&mut model, Message::Tailed(tailed));
    model
}

pub(crate) fn snapshot() -> Snapshot {
    let account = Account {
        name: "ada".to_owned(),
        role: Some(Role::Member),
        suspended: false,
        plan: Some("free".to_owned()),
        balance_usd: Some("4.998213500".to_owned()),
    };
    let limits = Limits { rpm: Some(60), tpm: Some(200_000), concurrency: None };
    let by_model = [("qwen3-coder-480b", 900_000), ("gpt-oss-20b", 310_000), ("tiny", 1_200)]
        .map(|(model, input)| (model.to_owned(), totals(input)));
    Snapshot {
        account,
        limits: Some(limits),
        usage: Usage { totals: totals(1_211_200), by_model: by_model.to_vec() },
    }
}

pub(crate) fn empty_snapshot() -> Snapshot {
    let mut snapshot = snapshot();
    snapshot.account.balance_usd = Some("5.00".to_owned());
    snapshot.usage = Usage::default();
    snapshot.usage.totals.cost_usd = Some("0.00".to_owned());
    snapshot
}

fn totals(input: u64) -> Totals {
    Totals {
        requests: 1_234,
        errors: 7,
        tokens: Tokens {
            input: Some(input),
            cached: Some(input / 3),
            output: Some(input / 5),
            reasoning: None,
        },
        cost_usd: Some("1.001786500".to_owned()),
    }
}

/// Returns `count` records, one a minute, with every status and some values unknown.
pub(crate) fn records(count: usize) -> Vec<Record> {
    let statuses = [
        Some(Status::Completed),
        Some(Status::Incomplete),
        Some(Status::Failed),
        Some(Status::Cancelled),
        Some(Status::Interrupted),
        Some(Status::Rejected),
        None,
    ];
    let record = |index: usize| {
        let known = !index.is_multiple_of(4);
        let number = u32::try_from(index).unwrap();
        Record {
            started_at: jiff::Timestamp::new(1_795_000_000 + 60 * i64::from(number), 0).ok(),
            model: known.then(|| "gpt-oss-20b".to_owned()),
            status: statuses[index % statuses.len()],
            tokens: Tokens {
                input: Some(u64::from(number) * 77_777),
                cached: None,
                output: known.then_some(u64::from(number)),
                reasoning: None,
            },
            duration_ms: known.then_some(f64::from(number) * 1_234.5),
            cost_usd: known.then(|| format!("0.{number:09}")),
        }
    };
    (0..count).map(record).collect()
}

/// Returns an overview in which no text fits its place.
pub(crate) fn overlong() -> Model {
    let long = "模型-very-long-name-👩‍🔬-".repeat(9);
    let mut snapshot = snapshot();
    snapshot.account.name.clone_from(&long);
    snapshot.account.plan = Some(long.clone());
    snapshot.account.balance_usd = Some("-123456789012345678.123456789".to_owned());
    snapshot.account.suspended = true;
    snapshot.limits = None;
    snapshot.usage.totals.tokens.input = Some(u64::MAX);
    snapshot.usage.by_model =
        (0..9).map(|i| (format!("{i}{long}"), totals(i * 999_999_999))).collect();
    let mut records = records(9);
    for record in &mut records {
        record.model = Some(format!("\u{1b}[31m{long}"));
        record.cost_usd = Some("123456789012345678.123456789".to_owned());
        record.duration_ms = Some(1e12);
    }
    let mut model = overview(snapshot, records);
    model.server = format!("https://{long}.example");
    model
}

/// Draws `model` as a terminal of that size would show it.
pub(crate) fn draw(model: &Model, (width, height): (u16, u16)) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        view::render(model, frame.buffer_mut(), area);
    });
    drawn.unwrap();
    terminal.backend().clone()
}
