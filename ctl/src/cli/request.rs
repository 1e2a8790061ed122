//! `ctl request …`

use clap::{Args, Subcommand, ValueEnum};
use proto::v1::RequestStatus;

use super::value::{self, When};

/// A command on request records.
#[derive(Debug, Subcommand)]
pub(crate) enum RequestCommand {
    /// Lists request records, newest first
    #[command(after_help = "Example:\n  ctl request list --status failed --since 24h -o jsonl\n  \
        ctl request list --filter 'model:gpt-5,llama3 cost>0.01 -status:completed'")]
    List(List),
    /// Shows a request record
    #[command(after_help = "Example:\n  ctl request show 019a9f0e-7c1e-7d2a-b6a4-2f1f9c3e8a01")]
    Show(Show),
    /// Follows the log until Ctrl-C: history first, then news; goes on when the connection broke
    #[command(after_help = "Example:\n  ctl request tail --history 10 -o jsonl\n  \
        ctl request tail --filter 'status:failed,rejected ttft>2s'")]
    Tail(Tail),
    /// Writes all chosen request records to stdout, oldest first
    #[command(
        after_help = "Example:\n  ctl request export --since 30d --format csv > requests.csv"
    )]
    Export(Export),
}

/// Which requests.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// For which all of these hold: model:ID status:STATUS key:ID account:NAME endpoint:NAME error:CODE
    /// stream:yes cost>USD tokens<N duration>5s ttft>250ms since:24h until:TIME; a,b for either, - for not
    #[arg(
        long = "filter",
        value_name = "EXPRESSION",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(crate) expression: String,
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
    /// From then on: 24h, 7d ago, a day (its midnight, UTC), or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) since: Option<When>,
}

/// Input of `ctl request list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Before then: 24h, 7d ago, a day (its midnight, UTC), or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u32,
}

/// Input of `ctl request show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The record's id, which clients see as `x-request-id`; of the last ones, eight characters of its
    /// beginning or end will do
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
    /// End with code 6 when the connection breaks, and say where to go on
    #[arg(long)]
    pub(crate) no_reconnect: bool,
}

/// Input of `ctl request export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Before then: 24h, 7d ago, a day (its midnight, UTC), or an RFC 3339 time [default: now]
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
