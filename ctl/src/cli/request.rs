//! `ctl request …`

use clap::{Args, Subcommand};
use proto::v1::RequestStatus;

use super::value::{self, When};

/// A command on request records.
#[derive(Debug, Subcommand)]
pub(crate) enum RequestCommand {
    /// Lists request records, newest first
    #[command(after_help = "Example:\n  ctl request list --status failed --since 24h -o jsonl")]
    List(List),
    /// Shows a request record
    #[command(after_help = "Example:\n  ctl request show 019a9f0e-7c1e-7d2a-b6a4-2f1f9c3e8a01")]
    Show(Show),
    /// Follows the log until Ctrl-C: history first, then news
    #[command(after_help = "Example:\n  ctl request tail --history 10 -o jsonl")]
    Tail(Tail),
}

/// Which requests.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// That ended so
    #[arg(long, value_parser = value::status())]
    pub(crate) status: Option<RequestStatus>,
    /// Of this model
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
    /// Of this key, by public id
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    /// Of this account, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// From then on: 24h, 7d ago, or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) since: Option<When>,
}

/// Input of `ctl request list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Before then: 24h, 7d ago, or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u32,
}

/// Input of `ctl request show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The record's id; clients see it as `x-request-id`
    pub(crate) id: String,
}

/// Input of `ctl request tail`.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Begin with so many past records
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub(crate) history: u32,
    /// Go on after this cursor, which an interrupted tail printed
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "history")]
    pub(crate) cursor: String,
}
