//! A drawn screen as an SVG image.

use std::fmt::Write;
use std::ops::Range;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use ratatui::text::Span;

use crate::theme::{Palette, Theme};

/// The size of a cell, in pixels.
const CELL: (u16, u16) = (9, 19);
/// The terminal's 16 colours, as xterm has them.
const SIXTEEN: [&str; 16] = [
    "#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5",
    "#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff",
];

/// The colours of cells that have none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ground {
    background: String,
    foreground: String,
}

/// Renders a screen as an SVG image: a rectangle for each run of cells with a background, a text element for
/// each word of one style. `textLength` keeps the columns aligned with any monospace font.
pub fn svg(buffer: &Buffer, theme: Theme) -> String {
    let ground = Ground::of(theme);
    let mut out = start(buffer, &ground);
    for y in 0..buffer.area.height {
        out += &row(buffer, y, &ground);
    }
    out + "</svg>\n"
}

/// Renders screens of one size in the theme `dark` as an SVG image that shows each for its number of milliseconds and begins again
/// after the last one. A row that does not change is drawn once.
pub fn animation(frames: &[(Buffer, u32)]) -> String {
    let Some((first, _)) = frames.first() else { return String::new() };
    let length: u32 = frames.iter().map(|(_, shown)| *shown).sum();
    let ground = Ground::of(Theme::new(Palette::Dark));
    let mut out = start(first, &ground);
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
            let text = row(buffer, y, &ground);
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
fn start(buffer: &Buffer, ground: &Ground) -> String {
    let background = &ground.background;
    let (width, height) = (buffer.area.width * CELL.0 + 16, buffer.area.height * CELL.1 + 16);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"15\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{background}\"/>\n"
    )
}

/// Returns the elements of a row of cells.
fn row(buffer: &Buffer, y: u16, ground: &Ground) -> String {
    let width = buffer.area.width;
    let mut out = String::new();
    let mut x = 0;
    while x < width {
        let style = Look::of(&buffer[(x, y)], ground);
        let end =
            (x..width).find(|&at| Look::of(&buffer[(at, y)], ground) != style).unwrap_or(width);
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
    fn of(cell: &Cell, ground: &Ground) -> Self {
        let foreground = hex(cell.fg).unwrap_or_else(|| ground.foreground.clone());
        let background = hex(cell.bg);
        let is_bold = cell.modifier.contains(Modifier::BOLD);
        if cell.modifier.contains(Modifier::REVERSED) {
            let below = background.unwrap_or_else(|| ground.background.clone());
            return Self { foreground: below, background: Some(foreground), is_bold };
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

/// Returns a colour in the notation of SVG; `None` for that of the terminal.
fn hex(color: Color) -> Option<String> {
    let number: usize = match color {
        Color::Reset => return None,
        Color::Rgb(red, green, blue) => return Some(rgb(red, green, blue)),
        Color::Indexed(number) => number.into(),
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
    };
    Some(SIXTEEN.get(number).map_or_else(|| of_256(number), |&named| named.to_owned()))
}

/// Returns a colour of xterm's 256, after the first 16: a cube of six steps in each direction, then 24
/// greys.
fn of_256(number: usize) -> String {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match number.saturating_sub(16) {
        place @ 0..216 => rgb(STEPS[place / 36], STEPS[place / 6 % 6], STEPS[place % 6]),
        place => {
            let grey = u8::try_from(8 + 10 * (place - 216)).unwrap_or(u8::MAX);
            rgb(grey, grey, grey)
        }
    }
}

fn rgb(red: u8, green: u8, blue: u8) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

// === impl Ground ===

impl Ground {
    /// Returns the colours of the theme; where it leaves them to the terminal, those of a light terminal
    /// for `light` and of a dark one for the others.
    fn of(theme: Theme) -> Self {
        let (background, foreground) = if theme == Theme::new(Palette::Light) {
            ("#ffffff", "#24292f")
        } else {
            ("#1b1f28", "#d7dae0")
        };
        let base = theme.base();
        Self {
            background: base.bg.and_then(hex).unwrap_or_else(|| background.to_owned()),
            foreground: base.fg.and_then(hex).unwrap_or_else(|| foreground.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;
    use crate::theme::catalogue::parse;

    fn drawn(theme: Theme, style: Style) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 2, 1));
        buffer.set_style(buffer.area, theme.base());
        buffer.set_string(0, 0, "a", style);
        svg(&buffer, theme)
    }

    #[test]
    fn the_image_has_the_ground_of_the_theme_and_named_colours() {
        let own = parse("background = \"#102030\"\nforeground = \"white\"").unwrap();
        let picture = drawn(own, Style::new());
        assert!(picture.contains("rx=\"6\" fill=\"#102030\""), "{picture}");
        assert!(picture.contains("fill=\"#ffffff\">a<"), "{picture}");
        let light = drawn(Theme::new(Palette::Light), Style::new());
        assert!(light.contains("rx=\"6\" fill=\"#ffffff\""), "{light}");
        let sixteen = drawn(Theme::new(Palette::Sixteen), Style::new().fg(Color::LightBlue));
        assert!(sixteen.contains("fill=\"#5c5cff\">a<"), "{sixteen}");
        let colours = [16, 196, 231, 232, 255].map(|it| hex(Color::Indexed(it)).unwrap());
        assert_eq!(colours, ["#000000", "#ff0000", "#ffffff", "#080808", "#eeeeee"]);
    }
}
