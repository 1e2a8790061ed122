//! `ctl usage …`

use clap::{Args, Subcommand};

use super::request::{Export, Filter};
use super::value::{self, When};

/// A command on usage; without a verb, the summary.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Usage {
    #[command(subcommand)]
    pub(crate) command: Option<UsageCommand>,
    #[command(flatten)]
    pub(crate) summary: Summary,
}

/// What to do with usage.
#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Sums requests, tokens and cost: in total, by model, by day and by key
    #[command(after_help = "Example:\n  ctl usage summary --since 7d --model gpt-5 -o json")]
    Summary(Summary),
    /// Writes all chosen request records to stdout, oldest first; the same as `ctl request export`
    #[command(after_help = "Example:\n  ctl usage export --since 30d --format csv > requests.csv")]
    Export(Export),
}

/// Input of `ctl usage summary`.
#[derive(Debug, Args)]
pub(crate) struct Summary {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Before then: 24h, 7d ago, a day (its midnight, UTC), or an RFC 3339 time [default: now]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
}
