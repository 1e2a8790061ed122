//! The arguments of `ctl account`.

use clap::{Args, Subcommand, ValueEnum};
use jiff::SignedDuration;

use super::value;

/// The subcommands of `ctl account`.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// List all accounts by name (role support)
    #[command(after_help = "Example:\n  ctl account list -o csv")]
    List,
    /// Show an account; yours by default
    #[command(after_help = "Example:\n  ctl account show alice")]
    Show(Show),
    /// List the limits of an account, yours by default, and their current use
    #[command(after_help = "Example:\n  ctl account limits\n  ctl account limits alice -o json")]
    Limits(Limits),
    /// Add to or subtract from the balance of an account (role operator)
    #[command(after_help = "Example:\n  ctl account credit alice 20 --reason 'invoice 17'\n  \
        ctl account credit alice -0.50 --reason 'credited twice'")]
    Credit(Credit),
    /// Suspend an account: refuse its keys and all its changes (role support)
    #[command(
        after_help = "Example:\n  ctl account suspend alice --reason 'invoice 17 is overdue'"
    )]
    Suspend(Suspend),
    /// Reactivate a suspended account (role support)
    #[command(after_help = "Example:\n  ctl account resume alice")]
    Resume(Resume),
    /// Move an account to another plan; its balance does not change (role operator)
    #[command(after_help = "Example:\n  ctl account plan alice team")]
    Plan(Plan),
    /// Give an account another role on the admin plane (owners only)
    #[command(after_help = "Each role includes those before it:\n  \
        member    its own account, keys and requests\n  \
        support   reads everything but secrets, suspends accounts, revokes keys\n  \
        operator  changes everything but roles and the operator token\n  \
        owner     everything\n\n\
        Examples:\n  ctl account grant alice operator\n  ctl account grant alice member")]
    Grant(Grant),
    /// Change your password and revoke your other sessions
    #[command(after_help = "Example:\n  ctl account password\n  \
        printf '%s\\n' \"$OLD\" \"$NEW\" | ctl account password --password-stdin")]
    Password(Password),
    /// Create a single-use invite code for registration (role operator)
    #[command(after_help = "Example:\n  ctl account invite --ttl 48h")]
    Invite(Invite),
}

/// Arguments of `ctl account show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Account name or id
    pub(crate) account: Option<String>,
}

/// Arguments of `ctl account limits`.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Account name or id
    pub(crate) account: Option<String>,
}

/// Arguments of `ctl account credit`.
#[derive(Debug, Args)]
pub(crate) struct Credit {
    /// Account name or id
    pub(crate) account: String,
    /// Amount in US dollars; negative to subtract
    #[arg(value_name = "USD", allow_hyphen_values = true)]
    pub(crate) amount_usd: String,
    /// Reason, stored in the ledger entry
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

/// Arguments of `ctl account invite`.
#[derive(Debug, Args)]
pub(crate) struct Invite {
    /// How long the code is valid
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = value::duration)]
    pub(crate) ttl: SignedDuration,
}

/// Arguments of `ctl account suspend`.
#[derive(Debug, Args)]
pub(crate) struct Suspend {
    /// Account name or id
    pub(crate) account: String,
    /// Reason, shown to the account in its audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

/// Arguments of `ctl account resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Account name or id
    pub(crate) account: String,
}

/// Arguments of `ctl account plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Account name or id
    pub(crate) account: String,
    /// Plan name
    pub(crate) plan: String,
}

/// Arguments of `ctl account grant`.
#[derive(Debug, Args)]
pub(crate) struct Grant {
    /// Account name or id
    pub(crate) account: String,
    /// The role; `member` takes back any other
    pub(crate) role: Role,
}

/// A role on the admin plane.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Role {
    Member,
    Support,
    Operator,
    Owner,
}

/// Arguments of `ctl account password`.
#[derive(Debug, Args)]
pub(crate) struct Password {
    /// Read the old and the new password from two lines of stdin instead of prompting for them
    #[arg(long)]
    pub(crate) password_stdin: bool,
}
