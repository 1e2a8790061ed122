//! `ctl usage …`

use clap::{Args, Subcommand, ValueEnum};

use super::request::Filter;
use super::value::{self, When};

/// A command on usage.
#[derive(Debug, Subcommand)]
pub(crate) enum UsageCommand {
    /// Sums requests, tokens and cost: in total, by model and by day
    #[command(after_help = "Example:\n  ctl usage summary --since 7d --model gpt-5 -o json")]
    Summary(Summary),
    /// Writes all chosen request records to stdout, oldest first
    #[command(after_help = "Example:\n  ctl usage export --since 30d --format csv > requests.csv")]
    Export(Export),
}

/// Input of `ctl usage export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Before then: 24h, 7d ago, or an RFC 3339 time [default: now]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
    /// How records are written: csv or jsonl [default: jsonl, or what --output says]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) format: Option<ExportFormat>,
}

/// A format whose beginning does not depend on its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Comma-separated values under a header
    Csv,
    /// One JSON object per line
    Jsonl,
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
