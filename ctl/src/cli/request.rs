//! The arguments of `ctl request`.

use clap::{Args, Subcommand, ValueEnum};
use proto::v1::RequestStatus;

use super::value::{self, When};

/// The subcommands of `ctl request`.
#[derive(Debug, Subcommand)]
pub(crate) enum RequestCommand {
    /// List request records, newest first
    #[command(after_help = "Example:\n  ctl request list --status failed --since 24h -o jsonl\n  \
        ctl request list --filter 'model:gpt-5,llama3 cost>0.01 -status:completed'")]
    List(List),
    /// Show a request record
    #[command(after_help = "Example:\n  ctl request show 019a9f0e-7c1e-7d2a-b6a4-2f1f9c3e8a01")]
    Show(Show),
    /// Keep what the next requests of a key contain on each side of the gateway, for debugging (operators only)
    #[command(after_help = "Example:\n  ctl request capture --key 9f2c41d0 --for 10m\n  \
        ctl request show 019a9f0e-7c1e-7d2a-b6a4-2f1f9c3e8a01 --wire\n\n\
        The bodies of requests and answers are kept for an hour in the memory of the gateway that ctl is connected to, at \
        most 64 KiB of each and of the last 64 requests. Values of headers that may be secret are never kept, and what looks \
        like a key is not shown. The audit log has the capture and who read what.")]
    Capture(Capture),
    /// Follow the request log until Ctrl-C, starting with recent records; reconnects automatically
    #[command(after_help = "Example:\n  ctl request tail --history 10 -o jsonl\n  \
        ctl request tail --filter 'status:failed,rejected ttft>2s'")]
    Tail(Tail),
    /// List the requests in flight on the gateway, oldest first
    #[command(name = "in-flight", after_help = "Example:\n  ctl request in-flight -o jsonl")]
    InFlight(InFlight),
    /// Cancel a request in flight; its client gets an error
    #[command(after_help = "Example:\n  ctl request cancel 019a9f0e-7c1e-7d2a-b6a4-2f1f9c3e8a01")]
    Cancel(Cancel),
    /// Write all matching request records to stdout, oldest first
    #[command(
        after_help = "Example:\n  ctl request export --since 30d --format csv > requests.csv"
    )]
    Export(Export),
}

/// The conditions that request records must meet.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Filter terms, all of which must match: model:ID status:STATUS key:ID account:NAME
    /// endpoint:NAME error:CODE stream:yes cost>USD tokens<N duration>5s ttft>250ms since:24h
    /// until:TIME; `a,b` matches either, a leading `-` negates
    #[arg(
        long = "filter",
        value_name = "EXPRESSION",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(crate) expression: String,
    /// Only requests with this status
    #[arg(long, value_parser = value::status())]
    pub(crate) status: Option<RequestStatus>,
    /// Only requests for this model
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
    /// Only requests with this key, by public id
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    /// Only requests of this account, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Start time, inclusive: a duration ago (24h, 7d), a date (midnight UTC) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) since: Option<When>,
}

/// Arguments of `ctl request list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// End time, exclusive: a duration ago (24h, 7d), a date (midnight UTC) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
    /// Maximum number of records
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u32,
}

/// Arguments of `ctl request show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Record id, which clients get as `x-request-id`; for recent records, the first or last eight
    /// characters suffice
    pub(crate) id: String,
    /// Show the captured messages instead: what came in, went upstream, came back and went out (operators only)
    #[arg(long)]
    pub(crate) wire: bool,
}

/// Arguments of `ctl request capture`.
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// Public id of the key
    #[arg(long, value_name = "ID")]
    pub(crate) key: String,
    /// Duration of the capture, at most an hour
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = value::duration)]
    pub(crate) duration: jiff::SignedDuration,
}

/// Arguments of `ctl request in-flight`.
#[derive(Debug, Args)]
pub(crate) struct InFlight {
    /// Only requests of this account, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
}

/// Arguments of `ctl request cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Request id; the first or last eight characters, as `ctl request in-flight` shows them, suffice
    pub(crate) id: String,
}

/// Arguments of `ctl request tail`.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Number of past records to print first
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub(crate) history: u32,
    /// Continue after this cursor, as printed by an interrupted tail
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "history")]
    pub(crate) cursor: String,
    /// Exit with 6 when the connection breaks, and print the cursor to continue from
    #[arg(long)]
    pub(crate) no_reconnect: bool,
}

/// Arguments of `ctl request export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// End time, exclusive: a duration ago (24h, 7d), a date (midnight UTC) or an RFC 3339 time
    /// [default: now]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
    /// Export format: csv or jsonl [default: the value of --output, else jsonl]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) format: Option<ExportFormat>,
}

/// An output format that can be streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Comma-separated values under a header
    Csv,
    /// One JSON object per line
    Jsonl,
}
