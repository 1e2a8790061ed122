//! `ctl session …`

use clap::{Args, Subcommand};

/// A command on your own sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Lists your sessions, newest first
    #[command(after_help = "Example:\n  ctl session list")]
    List,
    /// Ends a session, or all but this one
    #[command(after_help = "Example:\n  ctl session revoke 4be1f07a92c3\n  \
        ctl session revoke --others")]
    Revoke(Revoke),
}

/// Input of `ctl session revoke`.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The session's id
    #[arg(required_unless_present = "others")]
    pub(crate) id: Option<String>,
    /// All of them but the one that asks
    #[arg(long, conflicts_with = "id")]
    pub(crate) others: bool,
}
