//! The arguments of `ctl webhook`.

use clap::Subcommand;

/// The subcommands of `ctl webhook`.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Send a test event to each endpoint and show what it answered
    #[command(after_help = "Example:\n  ctl webhook test\n\n\
        Exits with 1 if an endpoint does not accept the event. The gateway's setting `webhook.urls` names the endpoints.")]
    Test,
}
