//! `ctl profile …`

use clap::{Args, Subcommand};

/// A command on profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Lists profiles, and which one is meant
    #[command(after_help = "Example:\n  ctl profile list")]
    List,
    /// Shows a profile; without a name, the gateway that is meant and who asks there
    #[command(after_help = "Example:\n  ctl profile show\n  ctl profile show prod -o json")]
    Show(Show),
    /// Makes a profile's gateway the one that is meant if none is named
    #[command(after_help = "Example:\n  ctl profile use prod")]
    Use(Named),
    /// Gives the gateway at --server a name; with --ca-file, where its certificate is of a private authority
    #[command(after_help = "Example:\n  \
        ctl profile set prod --server https://gate.example:8081 --ca-file ca.pem\n  \
        ctl profile set local --server unix:/run/tollgate/admin.sock")]
    Set(Named),
    /// Forgets a profile; a session with its gateway stays
    #[command(after_help = "Example:\n  ctl profile remove prod")]
    Remove(Named),
}

/// Input of `ctl profile show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The profile's name
    pub(crate) name: Option<String>,
}

/// Input of `ctl profile use`, `ctl profile set` and `ctl profile remove`.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The profile's name
    pub(crate) name: String,
}
