//! The arguments of `ctl profile`.

use clap::{Args, Subcommand};

/// The subcommands of `ctl profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List profiles and the one in use
    #[command(after_help = "Example:\n  ctl profile list")]
    List,
    /// Show a profile; without a name, the gateway in use and its account
    #[command(after_help = "Example:\n  ctl profile show\n  ctl profile show prod -o json")]
    Show(Show),
    /// Use a profile's gateway by default
    #[command(after_help = "Example:\n  ctl profile use prod")]
    Use(Named),
    /// Create or change a profile for the gateway at --server; add --ca-file if it uses a private
    /// CA
    #[command(after_help = "Example:\n  \
        ctl profile set prod --server https://gate.example:8081 --ca-file ca.pem\n  \
        ctl profile set local --server unix:/run/tollgate/admin.sock")]
    Set(Named),
    /// Remove a profile; a session with its gateway stays
    #[command(after_help = "Example:\n  ctl profile remove prod")]
    Remove(Named),
}

/// Arguments of `ctl profile show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Profile name
    pub(crate) name: Option<String>,
}

/// Arguments of `ctl profile use`, `ctl profile set` and `ctl profile remove`.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Profile name
    pub(crate) name: String,
}
