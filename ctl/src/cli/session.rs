//! The arguments of `ctl session`.

use clap::{Args, Subcommand};

/// The subcommands of `ctl session`, on the caller's own sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List your sessions, newest first
    #[command(after_help = "Example:\n  ctl session list")]
    List,
    /// Revoke a session, or all except the current one
    #[command(after_help = "Example:\n  ctl session revoke 4be1f07a92c3\n  \
        ctl session revoke --others")]
    Revoke(Revoke),
}

/// Arguments of `ctl session revoke`.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Session id
    #[arg(required_unless_present = "others")]
    pub(crate) id: Option<String>,
    /// Revoke all sessions except the current one
    #[arg(long, conflicts_with = "id")]
    pub(crate) others: bool,
}
