//! `ctl usage …`

use clap::{Args, Subcommand};

use super::value::{self, When};

/// A command on usage.
#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Sums requests, tokens and cost: in total, by model and by day
    #[command(after_help = "Example:\n  ctl usage summary --since 7d --model gpt-5 -o json")]
    Summary(Summary),
}

/// Input of `ctl usage summary`.
#[derive(Debug, Args)]
pub(crate) struct Summary {
    /// Of this account, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Of this model
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
    /// From then on: 24h, 7d ago, or an RFC 3339 time [default: 30d]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) since: Option<When>,
    /// Before then: 24h, 7d ago, or an RFC 3339 time [default: now]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
}
