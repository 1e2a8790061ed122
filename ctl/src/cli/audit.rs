//! The arguments of `ctl audit`.

use clap::{Args, Subcommand};

use super::value::{self, When};

/// The subcommands of `ctl audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List changes, newest first; members see only those of their own account
    #[command(after_help = "Example:\n  ctl audit list --since 7d\n  \
        ctl audit list --account alice --limit 20 -o json")]
    List(List),
}

/// Arguments of `ctl audit list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only changes by or to this account, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Start time, inclusive: a duration ago (24h, 7d), a date (midnight UTC) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) since: Option<When>,
    /// End time, exclusive: a duration ago (24h, 7d), a date (midnight UTC) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
}
