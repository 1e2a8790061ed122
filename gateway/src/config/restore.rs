//! The arguments of `gateway restore`.

use std::path::PathBuf;

use clap::Args;

/// The arguments of `gateway restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// The backup: a file of `ctl backup`, or a copy of the directory `backups` of a data directory
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The new data directory, which must be empty or missing
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// The old data directory, whose `seal.key` and `operator.token` are copied
    #[arg(long, value_name = "DIR")]
    pub secrets_from: Option<PathBuf>,
}
