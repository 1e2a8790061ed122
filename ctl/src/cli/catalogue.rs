//! `ctl apply`

use std::path::PathBuf;

use clap::Args;

/// Input of `ctl apply`.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The file that says how plans, upstreams and models shall be; - for stdin
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show what would change and whether the gateway would take it, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove the upstreams and models that the file does not have; asks first
    #[arg(long)]
    pub(crate) prune: bool,
}
