//! The arguments of `ctl traffic`.

use clap::Args;

/// Arguments of `ctl traffic`.
#[derive(Debug, Args)]
pub(crate) struct Traffic {
    /// Traffic of this account, by name or id; * for the whole gateway (operators only) [default:
    /// your account]
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Refresh until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Refresh interval, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(250..))]
    pub(crate) interval_ms: u32,
}
