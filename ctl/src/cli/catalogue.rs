//! The arguments of `ctl apply`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `ctl apply`.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Catalogue file (TOML) with the desired plans, upstreams and models; - for stdin
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show the changes and let the gateway validate them, without applying them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove upstreams and models that are missing from the file; asks first
    #[arg(long)]
    pub(crate) prune: bool,
}
