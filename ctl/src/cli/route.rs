//! The arguments of `ctl route`.

use clap::{Args, Subcommand};

/// The subcommands of `ctl route`.
#[derive(Debug, Subcommand)]
pub(crate) enum RouteCommand {
    /// Explain where requests for a model are sent at this moment, and why (operators only)
    #[command(after_help = "Example:\n  ctl route explain llama3\n  \
        ctl route explain llama3 --cache-key conversation-7 -o json")]
    Explain(Explain),
}

/// Arguments of `ctl route explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Model id, or an alias
    pub(crate) model: String,
    /// The `prompt_cache_key` of a conversation, for a model with the routing `prefix_affinity`
    #[arg(long, value_name = "KEY")]
    pub(crate) cache_key: Option<String>,
}
