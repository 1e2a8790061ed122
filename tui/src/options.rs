//! The command line of the `tui` binary.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, ValueEnum};
use clap_complete::Shell;

use std::path::PathBuf;

use crate::model::Screen;
use crate::view::MIN_SIZE;

/// The maximum number of columns, and of rows, of a snapshot.
const MAX_LENGTH: u16 = 500;

/// The Tollgate dashboard.
///
/// The address and the token are resolved as in `ctl`: flags, then `TOLLGATE_SERVER`,
/// `TOLLGATE_TOKEN` and `TOLLGATE_TOKEN_FILE`, then the session of the last sign-in here or with
/// `ctl login`, then this host's operator token. Without a token, it asks for a name and a password.
/// `?` lists the keys of the open screen.
#[derive(Debug, Parser)]
#[command(name = "tui", version, long_version = version::LONG)]
pub struct Options {
    /// The gateway's admin address: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`; on this
    /// host, `HOST:PORT` is enough
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// A file that contains the session token or the operator token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The base URL of the API for clients [default: the gateway's `public_url`]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// The screen to start with
    #[arg(long, value_parser = screen_parser())]
    pub screen: Option<Screen>,
    /// The filter of that screen; without `--screen`, of the request log
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Refuse everything that changes something, for a shared display
    #[arg(long)]
    pub read_only: bool,
    /// Print a screen and exit; without a name, the overview
    #[arg(long, value_name = "SCREEN", num_args = 0..=1, default_missing_value = "overview",
        value_parser = screen_parser(), conflicts_with_all = ["mouse", "screen"])]
    pub snapshot: Option<Screen>,
    /// The size of the snapshot, as columns and rows
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "120x36", value_parser = parse_size,
        requires = "snapshot")]
    pub size: (u16, u16),
    /// The format of the snapshot
    #[arg(long, default_value = "text", requires = "snapshot")]
    pub format: Format,
    /// The theme: `dark`, `light`, `16`, `plain`, one that `:theme` lists, or a file's name without
    /// `.toml` in the directory `themes` beside the profile file [default: the one chosen last, else
    /// detected from `NO_COLOR`, `COLORTERM`, `COLORFGBG` and terminfo]
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
    /// Enable the mouse: scroll, click tabs and rows
    #[arg(long)]
    pub mouse: bool,
    /// Print the manual page and exit
    #[arg(long)]
    pub man: bool,
    /// Print the completion script of a shell and exit
    #[arg(long, value_name = "SHELL", exclusive = true)]
    pub completions: Option<Shell>,
}

/// The format of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Plain text
    Text,
    /// A picture in the colours of the theme
    Svg,
}

// === impl Options ===

impl Options {
    /// Returns the screen to start with; `None` for the one that is open otherwise.
    pub fn first_screen(&self) -> Option<Screen> {
        let of_filter = self.filter.as_ref().map(|_| Screen::Usage);
        self.snapshot.or(self.screen).or(of_filter)
    }
}

fn screen_parser() -> impl TypedValueParser<Value = Screen> {
    let names = Screen::openable().map(Screen::name);
    PossibleValuesParser::new(names.collect::<Vec<_>>())
        .try_map(|name| Screen::find(&name).ok_or_else(|| format!("there is no screen `{name}`")))
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let (least_columns, least_rows) = MIN_SIZE;
    let size = text.split_once('x').and_then(|(columns, rows)| {
        let size: (u16, u16) = (columns.parse().ok()?, rows.parse().ok()?);
        let is_usable = (least_columns..=MAX_LENGTH).contains(&size.0)
            && (least_rows..=MAX_LENGTH).contains(&size.1);
        is_usable.then_some(size)
    });
    size.ok_or_else(|| {
        format!(
            "columns from {least_columns} and rows from {least_rows}, up to {MAX_LENGTH}, such as \
             120x36"
        )
    })
}
