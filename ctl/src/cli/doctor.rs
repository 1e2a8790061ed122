//! The arguments of `ctl doctor`.

use clap::Args;

/// Arguments of `ctl doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also send a short streamed request for each model of each upstream, which may cost money
    #[arg(long)]
    pub(crate) send_requests: bool,
}
