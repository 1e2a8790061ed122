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
    /// Lists the limits that hold for an account, your own if none is named, and how much is used
    #[command(after_help = "Example:\n  ctl account limits\n  ctl account limits alice -o json")]
    Limits(Limits),
    /// Adds to an account's balance, or takes from it (operators only)
    #[command(after_help = "Example:\n  ctl account credit alice 20 --reason 'invoice 17'\n  \
        ctl account credit alice -0.50 --reason 'credited twice'")]
    Credit(Credit),
    /// Suspends an account: its keys are refused, and it can change nothing (operators only)
    #[command(
        after_help = "Example:\n  ctl account suspend alice --reason 'invoice 17 is overdue'"
    )]
    Suspend(Suspend),
    /// Lets a suspended account be used again (operators only)
    #[command(after_help = "Example:\n  ctl account resume alice")]
    Resume(Resume),
    /// Puts an account on another plan; its balance stays (operators only)
    #[command(after_help = "Example:\n  ctl account plan alice team")]
    Plan(Plan),
    /// Changes your password and ends your other sessions
    #[command(after_help = "Example:\n  ctl account password\n  \
        printf '%s\\n' \"$OLD\" \"$NEW\" | ctl account password --password-stdin")]
    Password(Password),
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

/// Input of `ctl account limits`.
#[derive(Debug, Args)]
pub(crate) struct Limits {
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

/// Input of `ctl account suspend`.
#[derive(Debug, Args)]
pub(crate) struct Suspend {
    /// The account's name or id
    pub(crate) account: String,
    /// Why; the account sees it in its audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

/// Input of `ctl account resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The account's name or id
    pub(crate) account: String,
}

/// Input of `ctl account plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The account's name or id
    pub(crate) account: String,
    /// The plan's name
    pub(crate) plan: String,
}

/// Input of `ctl account password`.
#[derive(Debug, Args)]
pub(crate) struct Password {
    /// Read the old and the new password from two lines of stdin (else they are asked for on the
    /// terminal)
    #[arg(long)]
    pub(crate) password_stdin: bool,
}
