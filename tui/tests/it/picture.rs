//! Tests that the screenshots in the documentation match the current drawing.
//!
//! `tui/README.md` contains a screen as text, `tui/overview.svg` the same screen in colour.

use std::path::Path;

use tui::model::Model;
use tui::model::accounts::Role;
use tui::snapshot::svg::svg;
use tui::theme::{Palette, Theme};

use crate::sample::{Sample, account, draw, fill, signed_in};

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

#[test]
fn the_picture_is_current() {
    let mut model = overview();
    model.theme = Theme::new(Palette::Dark);
    let drawn = svg(draw(&model, SIZE).buffer());
    let committed = std::fs::read_to_string(package("overview.svg")).unwrap_or_default();
    if committed != drawn {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overview.svg");
        std::fs::write(&path, drawn).unwrap();
        panic!("the dashboard looks different; copy `{}` to `tui/overview.svg`", path.display());
    }
}
