//! `ctl traffic`

use clap::Args;

/// Input of `ctl traffic`.
#[derive(Debug, Args)]
pub(crate) struct Traffic {
    /// Of this account, by name or id; * for the whole gateway (operators only) [default: your own]
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Go on until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Milliseconds between two answers
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(250..))]
    pub(crate) interval_ms: u32,
}
