//! Tests that the screenshots in the documentation match the current drawing.
//!
//! `tui/README.md` contains a screen as text, `tui/overview.svg` the same screen in colour.

use std::fmt::Write;
use std::path::Path;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use tui::model::Model;
use tui::model::accounts::Role;
use tui::theme::{Palette, Theme};

use crate::sample::{Sample, account, draw, fill, signed_in};

const SIZE: (u16, u16) = (100, 26);
/// The size of a cell, in pixels.
const CELL: (u16, u16) = (9, 19);
const BACKGROUND: &str = "#1b1f28";
const FOREGROUND: &str = "#d7dae0";

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

/// Renders a screen as an SVG image: a rectangle for each run of cells with a background, a text element for
/// each word of one style. `textLength` keeps the columns aligned with any monospace font.
fn svg(buffer: &Buffer) -> String {
    let (width, height) = (SIZE.0 * CELL.0 + 16, SIZE.1 * CELL.1 + 16);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"15\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    );
    for y in 0..SIZE.1 {
        let mut x = 0;
        while x < SIZE.0 {
            let style = Look::of(&buffer[(x, y)]);
            let end = (x..SIZE.0).find(|&at| Look::of(&buffer[(at, y)]) != style);
            let end = end.unwrap_or(SIZE.0);
            let text: String = (x..end).map(|at| buffer[(at, y)].symbol()).collect();
            style.write(&mut out, &text, (x, y), end - x);
            x = end;
        }
    }
    out + "</svg>\n"
}

/// The style of a cell in terms of SVG.
#[derive(PartialEq, Eq)]
struct Look {
    foreground: String,
    background: Option<String>,
    is_bold: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let foreground = hex(cell.fg).unwrap_or_else(|| FOREGROUND.to_owned());
        let background = hex(cell.bg);
        let is_bold = cell.modifier.contains(Modifier::BOLD);
        if cell.modifier.contains(Modifier::REVERSED) {
            let ground = background.unwrap_or_else(|| BACKGROUND.to_owned());
            return Self { foreground: ground, background: Some(foreground), is_bold };
        }
        Self { foreground, background, is_bold }
    }

    fn write(&self, out: &mut String, text: &str, (x, y): (u16, u16), cells: u16) {
        let (left, top, length) = (x * CELL.0 + 8, y * CELL.1 + 8, cells * CELL.0);
        if let Some(background) = &self.background {
            let size = format!("width=\"{length}\" height=\"{}\"", CELL.1);
            writeln!(out, "<rect x=\"{left}\" y=\"{top}\" {size} fill=\"{background}\"/>").unwrap();
        }
        let weight = if self.is_bold { " font-weight=\"bold\"" } else { "" };
        let fill = &self.foreground;
        let mut at = 0;
        for word in text.split_inclusive(' ') {
            let shown = word.trim_end();
            let (left, cells) = (left + at * CELL.0, width(shown));
            at += width(word);
            if cells > 0 {
                let length = cells * CELL.0;
                let shown = shown.replace('&', "&amp;").replace('<', "&lt;");
                let place = format!("x=\"{left}\" y=\"{}\" textLength=\"{length}\"", top + 15);
                writeln!(out, "<text {place} fill=\"{fill}\"{weight}>{shown}</text>").unwrap();
            }
        }
    }
}

/// The width of `text` in cells; the sample has no wide characters.
fn width(text: &str) -> u16 {
    u16::try_from(text.chars().count()).unwrap()
}

fn hex(color: Color) -> Option<String> {
    match color {
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        _ => None,
    }
}
