//! `ctl account …`

use clap::{Args, Subcommand};
use jiff::SignedDuration;

use super::value;

/// A command on accounts.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Lists all accounts by name (operators only)
    #[command(after_help = "Example:\n  ctl account list -o csv")]
    List,
    /// Shows an account, your own if none is named
    #[command(after_help = "Example:\n  ctl account show alice")]
    Show(Show),
    /// Adds to an account's balance, or takes from it (operators only)
    #[command(after_help = "Example:\n  ctl account credit alice 20 --reason 'invoice 17'\n  \
        ctl account credit alice -0.50 --reason 'credited twice'")]
    Credit(Credit),
    /// Makes a code that lets one person register (operators only)
    #[command(after_help = "Example:\n  ctl account invite --ttl 48h")]
    Invite(Invite),
}

/// Input of `ctl account show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The account's name or id
    pub(crate) account: Option<String>,
}

/// Input of `ctl account credit`.
#[derive(Debug, Args)]
pub(crate) struct Credit {
    /// The account's name or id
    pub(crate) account: String,
    /// The amount in US dollars; negative to take away
    #[arg(value_name = "USD", allow_hyphen_values = true)]
    pub(crate) amount_usd: String,
    /// Why; kept with the ledger entry
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

/// Input of `ctl account invite`.
#[derive(Debug, Args)]
pub(crate) struct Invite {
    /// How long the code is good for
    #[arg(long, value_name = "SPAN", default_value = "7d", value_parser = value::span)]
    pub(crate) ttl: SignedDuration,
}
