//! `ctl doctor`

use clap::Args;

/// Input of `ctl doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also send each upstream a short streamed request for each of its models; it may charge for them
    #[arg(long)]
    pub(crate) send_requests: bool,
}
