//! The arguments of `ctl operator-token`.

use clap::Subcommand;

/// The subcommands of `ctl operator-token`.
#[derive(Debug, Subcommand)]
pub(crate) enum OperatorTokenCommand {
    /// Replace the token by a new one in its file on the host of the gateway; the old one stops at once
    #[command(after_help = "Example:\n  ctl operator-token rotate\n\n\
        Other gateways of the database accept the new token, too. Copy the file to their hosts if it is needed there.")]
    Rotate,
    /// Refuse the token, so that all owners have accounts with passwords
    #[command(after_help = "Example:\n  ctl operator-token disable\n\n\
        Without an owner who can sign in, `gateway operator-token enable` on the host of the stopped gateway is the \
        way back.")]
    Disable,
    /// Accept the token again
    #[command(after_help = "Example:\n  ctl operator-token enable")]
    Enable,
}
