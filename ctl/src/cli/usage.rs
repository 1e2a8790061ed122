//! The arguments of `ctl usage`.

use clap::{Args, Subcommand};

use super::request::{Export, Filter};
use super::value::{self, When};

/// Arguments of `ctl usage`, which shows the summary without a subcommand.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Usage {
    #[command(subcommand)]
    pub(crate) command: Option<UsageCommand>,
    #[command(flatten)]
    pub(crate) summary: Summary,
}

/// The subcommands of `ctl usage`.
#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Sum requests, tokens and cost: in total, by model, by day and by key
    #[command(after_help = "Example:\n  ctl usage summary --since 7d --model gpt-5 -o json")]
    Summary(Summary),
    /// Write all matching request records to stdout, oldest first; same as `ctl request export`
    #[command(after_help = "Example:\n  ctl usage export --since 30d --format csv > requests.csv")]
    Export(Export),
}

/// Arguments of `ctl usage summary`.
#[derive(Debug, Args)]
pub(crate) struct Summary {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// End time, exclusive: a duration ago (24h, 7d), a date (midnight UTC) or an RFC 3339 time
    /// [default: now]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
}
