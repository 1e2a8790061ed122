//! A drawn screen as an SVG image.

use std::fmt::Write;
use std::ops::Range;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use ratatui::text::Span;

/// The size of a cell, in pixels.
const CELL: (u16, u16) = (9, 19);
/// The colour of cells without a background.
const BACKGROUND: &str = "#1b1f28";
/// The colour of text without a colour.
const FOREGROUND: &str = "#d7dae0";

/// Renders a screen as an SVG image: a rectangle for each run of cells with a background, a text element for
/// each word of one style. `textLength` keeps the columns aligned with any monospace font.
pub fn svg(buffer: &Buffer) -> String {
    let mut out = start(buffer);
    for y in 0..buffer.area.height {
        out += &row(buffer, y);
    }
    out + "</svg>\n"
}

/// Renders screens of one size as an SVG image that shows each for its number of milliseconds and begins again
/// after the last one. A row that does not change is drawn once.
pub fn animation(frames: &[(Buffer, u32)]) -> String {
    let Some((first, _)) = frames.first() else { return String::new() };
    let length: u32 = frames.iter().map(|(_, shown)| *shown).sum();
    let mut out = start(first);
    // Writing to a string never fails.
    let _ = writeln!(
        out,
        "<animate id=\"l\" attributeName=\"visibility\" from=\"visible\" to=\"visible\" \
         begin=\"0s;l.end\" dur=\"{}s\"/>",
        seconds(length)
    );
    for y in 0..first.area.height {
        let mut begin = 0;
        let mut rows: Vec<(String, u32, u32)> = Vec::new();
        for (buffer, shown) in frames {
            let text = row(buffer, y);
            match rows.last_mut() {
                Some((same, _, end)) if *same == text => *end += shown,
                _ => rows.push((text, begin, begin + shown)),
            }
            begin += shown;
        }
        for (text, begin, end) in rows.into_iter().filter(|(text, ..)| !text.is_empty()) {
            if end - begin == length {
                out += &text;
                continue;
            }
            let _ = writeln!(
                out,
                "<g visibility=\"hidden\"><set attributeName=\"visibility\" to=\"visible\" \
                 begin=\"l.begin+{}s\" dur=\"{}s\"/>\n{text}</g>",
                seconds(begin),
                seconds(end - begin)
            );
        }
    }
    out + "</svg>\n"
}

fn seconds(milliseconds: u32) -> f64 {
    f64::from(milliseconds) / 1_000.0
}

/// Returns the start of an image in the size of `buffer`.
fn start(buffer: &Buffer) -> String {
    let (width, height) = (buffer.area.width * CELL.0 + 16, buffer.area.height * CELL.1 + 16);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"15\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    )
}

/// Returns the elements of a row of cells.
fn row(buffer: &Buffer, y: u16) -> String {
    let width = buffer.area.width;
    let mut out = String::new();
    let mut x = 0;
    while x < width {
        let style = Look::of(&buffer[(x, y)]);
        let end = (x..width).find(|&at| Look::of(&buffer[(at, y)]) != style).unwrap_or(width);
        let text = covered(buffer, x..end, y);
        // Writing to a string never fails.
        let _ = style.write(&mut out, &text, (x, y), end - x);
        x = end;
    }
    out
}

/// Returns the text of these cells, without those that a wide character before them covers.
fn covered(buffer: &Buffer, columns: Range<u16>, y: u16) -> String {
    let mut text = String::new();
    let mut until = columns.start;
    for x in columns {
        if x >= until {
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            until = x.saturating_add(width(symbol).max(1));
        }
    }
    text
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

    fn write(
        &self,
        out: &mut String,
        text: &str,
        (x, y): (u16, u16),
        cells: u16,
    ) -> std::fmt::Result {
        let (left, top, length) = (x * CELL.0 + 8, y * CELL.1 + 8, cells * CELL.0);
        if let Some(background) = &self.background {
            let size = format!("width=\"{length}\" height=\"{}\"", CELL.1);
            writeln!(out, "<rect x=\"{left}\" y=\"{top}\" {size} fill=\"{background}\"/>")?;
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
                writeln!(out, "<text {place} fill=\"{fill}\"{weight}>{shown}</text>")?;
            }
        }
        Ok(())
    }
}

/// Returns the number of cells of `text`.
fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

fn hex(color: Color) -> Option<String> {
    match color {
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        _ => None,
    }
}
