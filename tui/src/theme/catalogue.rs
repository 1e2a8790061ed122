//! The themes by name: those of the terminal's abilities, the well-known palettes that come with the
//! program, and files.
//!
//! A file has a colour per line, such as `accent = "#8be9fd"`. Colours that it does not name are
//! those of `dark`.

use ratatui::style::Color;
use toml::{Table, Value};

use super::{Colours, DARK, Palette, Theme};

/// The themes that come with the program as files.
const FILES: [(&str, &str); 8] = [
    ("catppuccin", include_str!("../../themes/catppuccin.toml")),
    ("dracula", include_str!("../../themes/dracula.toml")),
    ("gruvbox", include_str!("../../themes/gruvbox.toml")),
    ("high-contrast", include_str!("../../themes/high-contrast.toml")),
    ("nord", include_str!("../../themes/nord.toml")),
    ("solarized-dark", include_str!("../../themes/solarized-dark.toml")),
    ("solarized-light", include_str!("../../themes/solarized-light.toml")),
    ("tokyo-night", include_str!("../../themes/tokyo-night.toml")),
];

/// A theme with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTheme {
    /// The name.
    pub name: String,
    /// The theme.
    pub theme: Theme,
}

/// Returns the themes that come with the program.
pub fn bundled() -> Vec<NamedTheme> {
    let palettes = [Palette::Dark, Palette::Light, Palette::Sixteen, Palette::Plain];
    let palettes = palettes.map(|palette| (palette.name().to_owned(), Theme::new(palette)));
    let files = FILES.into_iter().filter_map(|(name, text)| {
        // A test reads all of them.
        Some((name.to_owned(), parse(text).ok()?))
    });
    let themes = palettes.into_iter().chain(files);
    themes.map(|(name, theme)| NamedTheme { name, theme }).collect()
}

/// Adds themes to others. One with the name of another replaces it.
pub fn add(themes: &mut Vec<NamedTheme>, added: Vec<NamedTheme>) {
    for theme in added {
        match themes.iter_mut().find(|it| it.name == theme.name) {
            Some(replaced) => *replaced = theme,
            None => themes.push(theme),
        }
    }
}

/// Reads a theme file.
///
/// # Errors
/// Returns what is wrong: the syntax, an unknown name, or something that is no colour.
pub fn parse(text: &str) -> Result<Theme, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut colours = DARK;
    for (name, value) in table {
        let colour = match &value {
            Value::String(text) => text.parse::<Color>().ok(),
            _ => None,
        };
        let colour = colour.ok_or_else(|| {
            format!("`{name}` is no colour: write a text such as \"#8be9fd\" or \"light-blue\"")
        })?;
        colours.set(&name, colour)?;
    }
    Ok(Theme { colours: Some(colours) })
}

impl Colours {
    fn set(&mut self, name: &str, colour: Color) -> Result<(), String> {
        match name {
            "background" => self.background = Some(colour),
            "foreground" => self.foreground = Some(colour),
            "faint" => self.faint = Some(colour),
            "border" => self.border = colour,
            "accent" => self.accent = colour,
            "good" => self.good = colour,
            "warning" => self.warning = colour,
            "bad" => self.bad = colour,
            "bar" => self.bar = colour,
            "second" => self.second = colour,
            "cursor" => self.cursor = Some(colour),
            _ => {
                return Err(format!(
                    "there is no colour `{name}`; there are background, foreground, faint, border, \
                     accent, good, warning, bad, bar, second and cursor"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_theme_is_valid_and_readable() {
        for (name, text) in FILES {
            let theme = parse(text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            let colours = theme.colours.unwrap();
            let ground = luminance(colours.background.unwrap());
            let texts = [
                colours.foreground.unwrap(),
                colours.faint.unwrap(),
                colours.accent,
                colours.good,
                colours.warning,
                colours.bad,
            ];
            for text in texts {
                let (a, b) = (luminance(text).max(ground), luminance(text).min(ground));
                let contrast = (a + 0.05) / (b + 0.05);
                assert!(contrast >= 3.0, "{name}: {text} has a contrast of {contrast:.1}");
            }
        }
        assert_eq!(bundled().len(), FILES.len() + 4);
    }

    /// Returns the relative luminance as WCAG defines it.
    fn luminance(colour: Color) -> f64 {
        let Color::Rgb(red, green, blue) = colour else { panic!("{colour} is not RGB") };
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    #[test]
    fn a_wrong_file_says_what_is_wrong() {
        for (text, problem) in [
            ("accent = 7", "`accent` is no colour"),
            ("accent = \"turquoisish\"", "`accent` is no colour"),
            ("acent = \"#ffffff\"", "there is no colour `acent`"),
            ("accent", "expected"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
        assert_eq!(parse("").unwrap(), Theme::new(Palette::Dark));
    }
}
