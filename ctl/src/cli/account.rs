//! The arguments of `ctl account`.

use clap::{Args, Subcommand, ValueEnum};
use jiff::SignedDuration;

use super::people::PeopleCommand;
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
    /// Rename an account; its id stays (role operator)
    #[command(after_help = "Example:\n  ctl account rename alice alice@example.org")]
    Rename(Rename),
    /// Close an account: end its sessions, revoke its keys, keep its balance (role operator)
    #[command(after_help = "Example:\n  ctl account close alice")]
    Close(Close),
    /// Delete a closed account and all personal data; the ledger keeps a pseudonym (role operator)
    #[command(after_help = "Example:\n  ctl account delete alice --confirm alice")]
    Delete(Delete),
    /// Reactivate a suspended account (role support), or a closed one (role operator)
    #[command(after_help = "Example:\n  ctl account resume alice")]
    Resume(Resume),
    /// Move an account to another plan; its balance does not change (role operator)
    #[command(after_help = "Example:\n  ctl account plan alice team")]
    Plan(Plan),
    /// Write everything that is stored about an account to a file, as JSON lines
    #[command(after_help = "Example:\n  ctl account export alice --out alice.jsonl\n\n\
        Members can export their own account. --yes overwrites an existing file.")]
    Export(Export),
    /// Give an account another role on the admin plane (owners only)
    #[command(after_help = "Each role includes those before it:\n  \
        member    its own account, keys and requests\n  \
        support   reads everything but secrets, suspends accounts, revokes keys\n  \
        operator  changes everything but roles and the operator token\n  \
        owner     everything\n\n\
        Example:\n  ctl account grant alice operator\n  ctl account grant alice member")]
    Grant(Grant),
    /// Change your password and revoke your other sessions
    #[command(after_help = "Example:\n  ctl account password\n  \
        printf '%s\\n' \"$OLD\" \"$NEW\" | ctl account password --password-stdin")]
    Password(Password),
    /// Create a code with which an account's owner (role operator) or a person sets a new password
    #[command(
        after_help = "The code is valid for one hour and one use: ctl login NAME --reset-code CODE. Its use ends \
        all sessions of that owner or person. The owner and the admins of an account may create it for its people.\n\n\
        Example:\n  ctl account reset-password alice"
    )]
    ResetPassword(ResetPassword),
    /// Manage the people who sign in to an account besides its owner
    #[command(
        subcommand,
        after_help = "A person signs in with a name and a password of their own, and acts for the \
        account. Its owner and its admins manage its people; so may operators.\n\nExample:\n  \
        ctl account people add carol@example.org\n  ctl account people list"
    )]
    People(PeopleCommand),
    /// Create a single-use invite code for registration (role operator)
    #[command(after_help = "Example:\n  ctl account invite --ttl 48h\n  \
        ctl account invite --plan team --credit 20")]
    Invite(Invite),
    /// List invites, newest first: open and used ones (role operator)
    #[command(after_help = "Example:\n  ctl account invites -o csv")]
    Invites,
    /// Revoke an unused invite (role operator)
    #[command(after_help = "Example:\n  ctl account uninvite 4be1f07a92c3")]
    Uninvite(Uninvite),
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
    /// Plan of the new account [default: the default plan]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) plan: String,
    /// Credit of the new account in US dollars, besides the trial credit of its plan [default: none]
    #[arg(long, value_name = "USD", default_value = "", hide_default_value = true)]
    pub(crate) credit: String,
}

/// Arguments of `ctl account uninvite`.
#[derive(Debug, Args)]
pub(crate) struct Uninvite {
    /// Id of the invite
    pub(crate) id: String,
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

/// Arguments of `ctl account rename`.
#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// Account name or id
    pub(crate) account: String,
    /// New name
    pub(crate) name: String,
}

/// Arguments of `ctl account export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Account name or id
    pub(crate) account: String,
    /// File to write, readable only by its owner
    #[arg(long, value_name = "FILE")]
    pub(crate) out: std::path::PathBuf,
}

/// Arguments of `ctl account close`.
#[derive(Debug, Args)]
pub(crate) struct Close {
    /// Account name or id
    pub(crate) account: String,
}

/// Arguments of `ctl account delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Account name or id
    pub(crate) account: String,
    /// The account's name once more, because a deletion cannot be undone
    #[arg(long, value_name = "NAME")]
    pub(crate) confirm: String,
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

/// Arguments of `ctl account reset-password`.
#[derive(Debug, Args)]
pub(crate) struct ResetPassword {
    /// Name or id of the account or the person
    pub(crate) account: String,
}

/// Arguments of `ctl account password`.
#[derive(Debug, Args)]
pub(crate) struct Password {
    /// Read the old and the new password from two lines of stdin instead of prompting for them
    #[arg(long)]
    pub(crate) password_stdin: bool,
}
