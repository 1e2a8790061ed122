//! The arguments of `ctl account people`.

use clap::{Args, Subcommand, ValueEnum};

/// The subcommands of `ctl account people`.
#[derive(Debug, Subcommand)]
pub(crate) enum PeopleCommand {
    /// Add a person and print the code with which it sets its password
    #[command(
        after_help = "The code is valid for seven days and one use: ctl login NAME --reset-code CODE.\n\n\
        Example:\n  ctl account people add carol@example.org\n  \
        ctl account people add dave --role admin --account acme"
    )]
    Add(Add),
    /// List the people of an account, removed ones included
    #[command(after_help = "Example:\n  ctl account people list")]
    List(List),
    /// Give a person another role in the account
    #[command(after_help = "Example:\n  ctl account people set carol@example.org --role admin")]
    Set(Set),
    /// Remove a person: end its sessions and free its name; its keys stay
    #[command(after_help = "Example:\n  ctl account people remove carol@example.org")]
    Remove(Remove),
}

/// What a person may do in the account.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PersonRole {
    /// Read everything, create keys, and change the keys that it created
    Member,
    /// Also export all stored responses, change all keys, and manage the people
    Admin,
}

/// Arguments of `ctl account people add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Name or e-mail address of the person, for sign-in
    pub(crate) name: String,
    /// What the person may do in the account
    #[arg(long, value_enum, default_value = "member")]
    pub(crate) role: PersonRole,
    /// Account name or id; yours by default (others: role operator)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) account: String,
}

/// Arguments of `ctl account people list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Account name or id; yours by default (others: role support)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) account: String,
}

/// Arguments of `ctl account people set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Name or id of the person
    pub(crate) name: String,
    /// What the person may do in the account
    #[arg(long, value_enum)]
    pub(crate) role: PersonRole,
}

/// Arguments of `ctl account people remove`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Name or id of the person
    pub(crate) name: String,
}
