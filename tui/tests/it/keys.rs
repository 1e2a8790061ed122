//! Property test: no sequence of keys, clicks, messages and sizes panics.

use crossterm::event::MouseEventKind::{Down, ScrollDown, ScrollUp};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent};
use proptest::prelude::*;
use tui::input;
use tui::message::Message;
use tui::model::change::{ChangeOutcome, IssuedSecret, SecretKind};
use tui::model::fetched::FetchState;
use tui::model::record::{LogBatch, OlderPage};
use tui::model::sign_in::SignInRefusal;
use tui::model::subscription::Topic;
use tui::model::trial::TrialEvent;
use tui::model::{ConnectionState, Model, Screen};
use tui::update::update;

use crate::sample::{Sample, draw, fill, open, overlong_record, record, sign_in};

/// A step of the property test.
#[derive(Clone, Debug)]
enum Step {
    Terminal(Event),
    Resize(u16, u16),
    Data(Sample),
    Tail(usize, bool),
    Fail(Topic),
    Lost,
    Back,
    SignedOut,
    SignedIn,
    Changed,
    Made,
    Older(usize),
    Trial(u64, TrialEvent),
    Refused,
    Unreachable,
}

fn key() -> impl Strategy<Value = Event> {
    use KeyCode::{
        BackTab, Backspace, Char, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp,
        Right, Tab, Up,
    };
    let named = prop::sample::select(vec![
        BackTab,
        Backspace,
        Delete,
        Down,
        End,
        Enter,
        Esc,
        F(1),
        Home,
        Left,
        PageDown,
        PageUp,
        Right,
        Tab,
        Up,
    ]);
    let letters = prop::sample::select(
        "jkJKGgr?:/123456789nxRypcseYt<>=-hl [] .aqé型👩\u{200d}\u{301}\u{7}"
            .chars()
            .collect::<Vec<_>>(),
    );
    let modifiers = prop::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::CONTROL,
        KeyModifiers::SHIFT,
    ]);
    (prop_oneof![named, letters.prop_map(Char)], modifiers)
        .prop_map(|(code, modifiers)| Event::Key(KeyEvent::new(code, modifiers)))
}

fn mouse() -> impl Strategy<Value = Event> {
    let kinds = prop::sample::select(vec![Down(MouseButton::Left), ScrollDown, ScrollUp]);
    (kinds, 0..320_u16, 0..80_u16).prop_map(|(kind, column, row)| {
        Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
    })
}

fn step() -> impl Strategy<Value = Step> {
    let states =
        prop::sample::select(vec![Sample::Empty, Sample::Normal, Sample::Error, Sample::Full]);
    let topics = prop::sample::select(vec![
        Topic::Account,
        Topic::Limits,
        Topic::Usage,
        Topic::Keys,
        Topic::Health,
        Topic::Traffic,
        Topic::Log,
    ]);
    let widths = prop::sample::select(vec![0, 1, 2, 7, 59, 60, 61, 80, 119, 120, 133, 300]);
    let heights = prop::sample::select(vec![0, 1, 2, 5, 15, 16, 17, 24, 35, 36, 61]);
    prop_oneof![
        30 => key().prop_map(Step::Terminal),
        3 => mouse().prop_map(Step::Terminal),
        1 => Just(Step::Terminal(Event::Paste("型 pasted\n\u{1b}[31m".to_owned()))),
        4 => (widths, heights).prop_map(|(width, height)| Step::Resize(width, height)),
        2 => states.prop_map(Step::Data),
        2 => (0..60_usize, any::<bool>()).prop_map(|(count, restarted)| Step::Tail(count, restarted)),
        1 => topics.prop_map(Step::Fail),
        1 => (0..60_usize).prop_map(Step::Older),
        2 => (0..4_u64, trial_event()).prop_map(|(run, event)| Step::Trial(run, event)),
        1 => Just(Step::Refused),
        1 => Just(Step::Unreachable),
        1 => prop_oneof![
            Just(Step::Lost),
            Just(Step::Back),
            Just(Step::SignedOut),
            Just(Step::SignedIn),
            Just(Step::Changed),
            Just(Step::Made),
        ],
    ]
}

fn trial_event() -> impl Strategy<Value = TrialEvent> {
    prop::sample::select(vec![
        TrialEvent::Text("型 and \n\u{1b}[31m ".repeat(99)),
        TrialEvent::Done,
        TrialEvent::Failed("型 ".repeat(99)),
        TrialEvent::Recorded(Box::new(overlong_record(1))),
    ])
}

fn take(model: &mut Model, step: Step) {
    let message = match step {
        Step::Terminal(event) => input::message(model, &event),
        Step::Resize(columns, rows) => Some(Message::Resized(columns, rows)),
        Step::Data(state) => {
            fill(model, state);
            None
        }
        Step::Tail(count, restarted) => {
            let kind = if restarted { record } else { overlong_record };
            let records = (0..count).map(kind).collect();
            Some(Message::LogReceived(LogBatch {
                restarted,
                records,
                dropped: u64::MAX,
                live: true,
            }))
        }
        Step::Fail(topic) => Some(Message::NotLoaded(topic, FetchState::Failed("型 ".repeat(99)))),
        Step::Lost => Some(Message::ConnectionChanged(ConnectionState::Reconnecting {
            problem: "型".repeat(99),
            retry_at: None,
        })),
        Step::Back => Some(Message::ConnectionChanged(ConnectionState::Connected)),
        Step::SignedOut => Some(Message::SignedOut("型 ".repeat(99))),
        Step::SignedIn => Some(Message::SignedIn { token: "token".into(), kept: Ok(true) }),
        Step::Older(count) => Some(Message::OlderReceived(OlderPage {
            filter: model.data.usage.filter.clone(),
            records: (0..count).map(overlong_record).collect(),
            is_last: count == 0,
        })),
        Step::Trial(run, event) => Some(Message::Trial(run, event)),
        Step::Refused => {
            Some(Message::SignInFailed(SignInRefusal::of("password", "型 ".repeat(99))))
        }
        Step::Unreachable => Some(Message::GatewayChecked(Some("型 ".repeat(99)))),
        Step::Changed => Some(Message::Changed(Err("型 ".repeat(99)))),
        Step::Made => {
            let secret = Some(IssuedSecret {
                kind: SecretKind::Key,
                label: "型".repeat(99),
                secret: "sk-tg-型".into(),
                models: Vec::new(),
            });
            Some(Message::Changed(Ok(ChangeOutcome {
                notice: "型 ".repeat(99),
                secret,
                ..ChangeOutcome::default()
            })))
        }
    };
    if let Some(message) = message {
        update(model, message);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn keys_clicks_messages_and_sizes_never_panic(
        place in 0..=Screen::openable().count(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut model = match Screen::openable().nth(place) {
            Some(screen) => open(screen, Sample::Normal),
            None => sign_in(),
        };
        for step in steps {
            take(&mut model, step);
            draw(&model, model.size);
        }
    }
}
