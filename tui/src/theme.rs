//! All colours: named styles in the palettes of the terminal's abilities and in those of files.
//!
//! Colour is never the only carrier of meaning. Without colours ([`Palette::Plain`]), styles differ
//! only in text attributes.

pub mod catalogue;
pub mod terminfo;

use ratatui::style::{Color, Modifier, Style};

use crate::model::record::RequestStatus;

/// Named styles, by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// `None` for text attributes only.
    colours: Option<Colours>,
}

/// The colours that a terminal supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// 24-bit colours on a dark background
    Dark,
    /// 24-bit colours on a light background
    Light,
    /// The terminal's 16 colours
    Sixteen,
    /// No colours: only bold, dim and reverse
    Plain,
}

/// The colours of one palette. `None` means the terminal's own, or a text attribute instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Colours {
    background: Option<Color>,
    foreground: Option<Color>,
    faint: Option<Color>,
    border: Color,
    accent: Color,
    good: Color,
    warning: Color,
    bad: Color,
    bar: Color,
    second: Color,
    cursor: Option<Color>,
}

const DARK: Colours = Colours {
    background: None,
    foreground: None,
    faint: Some(Color::Rgb(0x8a, 0x91, 0xa0)),
    border: Color::Rgb(0x45, 0x4b, 0x59),
    accent: Color::Rgb(0x7d, 0xc4, 0xe4),
    good: Color::Rgb(0x9e, 0xce, 0x8f),
    warning: Color::Rgb(0xe5, 0xc0, 0x7b),
    bad: Color::Rgb(0xed, 0x87, 0x96),
    bar: Color::Rgb(0x6c, 0x9f, 0xd8),
    second: Color::Rgb(0xb7, 0x9c, 0xe8),
    cursor: Some(Color::Rgb(0x2f, 0x3b, 0x54)),
};

const LIGHT: Colours = Colours {
    background: None,
    foreground: None,
    faint: Some(Color::Rgb(0x6a, 0x70, 0x7c)),
    border: Color::Rgb(0xc3, 0xc8, 0xd1),
    accent: Color::Rgb(0x0f, 0x6f, 0xa8),
    good: Color::Rgb(0x2c, 0x7a, 0x34),
    warning: Color::Rgb(0x96, 0x62, 0x00),
    bad: Color::Rgb(0xc0, 0x28, 0x3c),
    bar: Color::Rgb(0x36, 0x78, 0xc4),
    second: Color::Rgb(0x7a, 0x50, 0xc0),
    cursor: Some(Color::Rgb(0xd5, 0xe3, 0xf4)),
};

const SIXTEEN: Colours = Colours {
    background: None,
    foreground: None,
    faint: None,
    border: Color::DarkGray,
    accent: Color::Cyan,
    good: Color::Green,
    warning: Color::Yellow,
    bad: Color::Red,
    bar: Color::Blue,
    second: Color::Magenta,
    cursor: None,
};

impl Theme {
    /// Returns the theme for `palette`.
    pub const fn new(palette: Palette) -> Self {
        let colours = match palette {
            Palette::Dark => Some(DARK),
            Palette::Light => Some(LIGHT),
            Palette::Sixteen => Some(SIXTEEN),
            Palette::Plain => None,
        };
        Self { colours }
    }

    /// All cells without another style.
    pub fn base(self) -> Style {
        let ground = self.colours.and_then(|it| it.background);
        let text = self.colours.and_then(|it| it.foreground);
        let style = Style::new();
        let style = ground.map_or(style, |colour| style.bg(colour));
        text.map_or(style, |colour| style.fg(colour))
    }

    /// Emphasised values.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Labels and stale data.
    pub fn faint(self) -> Style {
        match self.colours.and_then(|it| it.faint) {
            Some(colour) => Style::new().fg(colour),
            None => Style::new().add_modifier(Modifier::DIM),
        }
    }

    /// Box borders.
    pub fn border(self) -> Style {
        self.coloured(|it| it.border)
    }

    /// Box titles and key names.
    pub fn accent(self) -> Style {
        self.coloured(|it| it.accent)
    }

    /// The open tab.
    pub fn tab(self) -> Style {
        self.accent().add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// The selected row.
    pub fn cursor(self) -> Style {
        match self.colours.and_then(|it| it.cursor) {
            Some(colour) => Style::new().bg(colour).add_modifier(Modifier::BOLD),
            None => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// The text cursor in an input field.
    pub fn caret(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Bars and the first of two charts.
    pub fn bar(self) -> Style {
        self.coloured(|it| it.bar)
    }

    /// The second of two charts.
    pub fn second_bar(self) -> Style {
        self.coloured(|it| it.second)
    }

    /// One of several series in a chart, by its number.
    pub fn series(self, number: usize) -> Style {
        let colours = [
            |it: &Colours| it.bar,
            |it: &Colours| it.second,
            |it: &Colours| it.good,
            |it: &Colours| it.warning,
            |it: &Colours| it.accent,
        ];
        self.coloured(colours[number % colours.len()])
    }

    /// A healthy state.
    pub fn good(self) -> Style {
        self.coloured(|it| it.good)
    }

    /// A state that needs attention.
    pub fn warning(self) -> Style {
        self.coloured(|it| it.warning)
    }

    /// An error.
    pub fn bad(self) -> Style {
        self.coloured(|it| it.bad).add_modifier(Modifier::BOLD)
    }

    /// The style of a request status.
    pub fn status(self, status: Option<RequestStatus>) -> Style {
        match status {
            Some(RequestStatus::Completed) => self.good(),
            Some(RequestStatus::Failed | RequestStatus::Interrupted) => self.bad(),
            Some(
                RequestStatus::Incomplete | RequestStatus::Cancelled | RequestStatus::Rejected,
            ) => self.warning(),
            None => self.faint(),
        }
    }

    fn coloured(self, pick: impl Fn(&Colours) -> Color) -> Style {
        self.colours.map_or_else(Style::new, |colours| Style::new().fg(pick(&colours)))
    }
}

impl Palette {
    /// Returns the name of the theme.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Sixteen => "16",
            Self::Plain => "plain",
        }
    }

    /// Detects the palette from the environment: `NO_COLOR` (<https://no-color.org>), `COLORTERM`,
    /// `COLORFGBG`, whose last part is the index of the background colour, and whether the terminfo
    /// entry has 24-bit colours.
    pub fn detect(
        no_color: Option<&str>,
        colorterm: Option<&str>,
        background: Option<&str>,
        has_truecolor: bool,
    ) -> Self {
        if no_color.is_some_and(|it| !it.is_empty()) {
            return Self::Plain;
        }
        if !has_truecolor && !matches!(colorterm, Some("truecolor" | "24bit")) {
            return Self::Sixteen;
        }
        match background.and_then(|it| it.rsplit(';').next()) {
            Some("7" | "15") => Self::Light,
            _ => Self::Dark,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Palette::{self, Dark, Light, Plain, Sixteen};

    #[test]
    fn detects_the_palette_from_the_environment() {
        for (no_color, colorterm, background, palette) in [
            (None, None, None, Sixteen),
            (None, Some("yes"), None, Sixteen),
            (Some(""), Some("truecolor"), None, Dark),
            (None, Some("24bit"), Some("15;0"), Dark),
            (None, Some("truecolor"), Some("0;15"), Light),
            (None, Some("truecolor"), Some("0;default;7"), Light),
            (None, None, Some("0;15"), Sixteen),
            (Some("1"), Some("truecolor"), Some("0;15"), Plain),
        ] {
            assert_eq!(Palette::detect(no_color, colorterm, background, false), palette);
        }
        assert_eq!(Palette::detect(None, None, Some("0;15"), true), Light);
        assert_eq!(Palette::detect(Some("1"), None, None, true), Plain);
    }
}
