//! The arguments of `ctl node`.

use clap::{Args, Subcommand};

/// The subcommands of `ctl node`.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the gateways of the database, with their state and load
    #[command(after_help = "Example:\n  ctl node list\n  ctl node list -o json")]
    List,
    /// Make a gateway report that it is not ready, so that load balancers send it no requests; it serves
    /// those that it gets
    #[command(after_help = "Example:\n  ctl node drain gate-2\n  ctl node drain gate-2 --undo\n\n\
        A start of the gateway ends the drain, too.")]
    Drain(Drain),
    /// Remove a gateway that stopped for good, or whose data directory is lost
    #[command(
        after_help = "Example:\n  ctl node remove gate-2\n  ctl node remove gate-3 --lost\n\n\
        The data directory of a removed gateway cannot be used again. One that serves requests is not removed."
    )]
    Remove(Remove),
}

/// Arguments of `ctl node drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// Node name
    pub(crate) name: String,
    /// End the drain
    #[arg(long)]
    pub(crate) undo: bool,
}

/// Arguments of `ctl node remove`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Node name
    pub(crate) name: String,
    /// The data directory is lost: give up the records that only its journal has
    #[arg(long)]
    pub(crate) lost: bool,
}
