//! The arguments of `ctl seal`.

use clap::Subcommand;

/// The subcommands of `ctl seal`.
#[derive(Debug, Subcommand)]
pub(crate) enum SealCommand {
    /// Encrypt all stored secrets of upstreams with a new key
    #[command(after_help = "Example:\n  ctl seal rotate\n\n\
        Requests are served meanwhile. The new key is written to `seal.key`, whose copies are then outdated. A rotation that \
        was interrupted is continued. A key that comes from a setting must be replaced there first: a new key on the \
        first line, the present one on the second.")]
    Rotate,
}
