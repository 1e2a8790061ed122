//! `ctl audit …`

use clap::{Args, Subcommand};

use super::value::{self, When};

/// A command on the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Lists who changed what, newest first; members see what concerns their own account
    #[command(after_help = "Example:\n  ctl audit list --since 7d\n  \
        ctl audit list --account alice --limit 20 -o json")]
    List(List),
}

/// Input of `ctl audit list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// What this account did or what concerns it, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// From then on: 24h, 7d ago, a day (its midnight, UTC), or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) since: Option<When>,
    /// Before then: 24h, 7d ago, a day (its midnight, UTC), or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) until: Option<When>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
}
