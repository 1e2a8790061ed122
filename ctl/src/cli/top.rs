//! The arguments of `ctl top`.

use clap::Args;

/// Arguments of `ctl top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print once, instead of refreshing until Ctrl-C; this is the default for tables if the output is not a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// Number of models and of accounts
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) rows: u16,
    /// Refresh interval, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(250..))]
    pub(crate) interval_ms: u32,
}
