//! Tests that the screenshots in the documentation match the current drawing.
//!
//! `tui/README.md` contains a screen as text; `tui/first-minute.svg` is an animated picture of the first
//! minute. A test that fails writes the current one to the directory of temporary files.

use std::path::Path;

use ratatui::buffer::Buffer;
use tui::message::{Loaded, Message};
use tui::model::accounts::Role;
use tui::model::change::{ChangeOutcome, IssuedSecret, SecretKind};
use tui::model::first_steps::FirstSteps;
use tui::model::trial::TrialEvent;
use tui::model::{Action, ConnectionState, Model, Screen};
use tui::snapshot::svg::animation;
use tui::theme::{Palette, Theme};
use tui::update::update;

use crate::sample::{
    Sample, account, act, draw, fill, key, load, record, sign_in, signed_in, write,
};

const SIZE: (u16, u16) = (100, 26);

fn overview() -> Model {
    let mut model = signed_in(account(0, Role::Member, Sample::Normal));
    fill(&mut model, Sample::Normal);
    model
}

fn package(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

#[test]
fn the_text_screen_in_the_manual_is_current() {
    let manual = std::fs::read_to_string(package("README.md")).unwrap();
    let block = manual
        .split_once("<!-- tui -->\n```text\n")
        .and_then(|(_, rest)| rest.split_once("```\n<!-- /tui -->"))
        .expect("README.md has a screen between <!-- tui --> and <!-- /tui -->")
        .0;
    let screen = draw(&overview(), SIZE);
    let line = |y| (0..SIZE.0).map(|x| screen.buffer()[(x, y)].symbol()).collect::<String>();
    let drawn: Vec<_> = (0..SIZE.1).map(|y| line(y).trim_end().to_owned()).collect();
    assert!(block.lines().eq(&drawn), "the screen is now\n{}\n", drawn.join("\n"));
}

/// The size of the animated picture.
const SMALL: (u16, u16) = (80, 24);
/// The maximum size of the animated picture, in bytes.
const MAX_BYTES: usize = 200_000;

/// Returns the first minute of a newcomer as screens with the milliseconds for which they are shown.
fn first_minute() -> Vec<(Buffer, u32)> {
    let mut frames = Vec::new();
    let mut show = |model: &mut Model, milliseconds| {
        model.theme = Theme::new(Palette::Dark);
        update(model, Message::Resized(SMALL.0, SMALL.1));
        frames.push((draw(model, SMALL).buffer().clone(), milliseconds));
    };
    let mut model = sign_in();
    model.first_steps = FirstSteps::Pending;
    show(&mut model, 1_500);
    act(&mut model, Action::ToggleRegistration);
    for (index, text) in ["ada", "correct horse", "correct horse"].into_iter().enumerate() {
        write(&mut model, text);
        show(&mut model, 700);
        act(&mut model, Action::Field(isize::from(index < 2)));
    }
    act(&mut model, Action::Submit);
    update(&mut model, Message::SignedIn { token: "token".into(), kept: Ok(true) });
    load(&mut model, Loaded::Account(account(0, Role::Member, Sample::Empty)));
    update(&mut model, Message::ConnectionChanged(ConnectionState::Connected));
    fill(&mut model, Sample::Empty);
    show(&mut model, 2_500);
    act(&mut model, Action::Open(Screen::Keys));
    show(&mut model, 1_200);
    act(&mut model, Action::New);
    write(&mut model, "laptop");
    show(&mut model, 1_500);
    act(&mut model, Action::Submit);
    let secret = format!("sk-tg-d954a5ca9647-{}", "01234567".repeat(7)).into();
    let made = IssuedSecret {
        kind: SecretKind::Key,
        label: "laptop".to_owned(),
        secret,
        models: Vec::new(),
    };
    let notice = "key `laptop` is created".to_owned();
    let done = ChangeOutcome { notice, secret: Some(made), ..ChangeOutcome::default() };
    update(&mut model, Message::Changed(Ok(done)));
    load(&mut model, Loaded::Keys(vec![key(0, Sample::Normal)]));
    let mut filled = overview();
    let models = std::mem::take(&mut filled.data.models.entries);
    load(&mut model, Loaded::Models(models));
    show(&mut model, 2_500);
    act(&mut model, Action::Try);
    write(&mut model, "Say hello to a newcomer.");
    show(&mut model, 1_500);
    act(&mut model, Action::Submit);
    for text in
        ["Hello, and welcome! ", "You have a key, some credit, ", "and a model that answers."]
    {
        update(&mut model, Message::Trial(1, TrialEvent::Text(text.to_owned())));
        show(&mut model, 500);
    }
    update(&mut model, Message::Trial(1, TrialEvent::Done));
    update(&mut model, Message::Trial(1, TrialEvent::Recorded(Box::new(record(1)))));
    show(&mut model, 2_500);
    for action in [Action::Back, Action::Copy, Action::Back, Action::Open(Screen::Usage)] {
        act(&mut model, action);
    }
    fill(&mut model, Sample::Normal);
    show(&mut model, 2_500);
    act(&mut model, Action::Chart);
    act(&mut model, Action::Move(-7));
    show(&mut model, 3_000);
    frames
}

#[test]
fn the_animated_picture_is_current() {
    let drawn = animation(&first_minute());
    assert!(drawn.len() < MAX_BYTES, "it has {} bytes", drawn.len());
    let committed = std::fs::read_to_string(package("first-minute.svg")).unwrap_or_default();
    if committed != drawn {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-minute.svg");
        std::fs::write(&path, drawn).unwrap();
        panic!("it looks different; copy `{}` to `tui/first-minute.svg`", path.display());
    }
}
