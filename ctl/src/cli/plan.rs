//! `ctl plan …`

use clap::{Args, Subcommand};

use super::limits::LimitFlags;

/// A command on plans.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Lists plans; members see their own
    #[command(after_help = "Example:\n  ctl plan list")]
    List,
    /// Shows a plan
    #[command(after_help = "Example:\n  ctl plan show free")]
    Show(Show),
    /// Creates a plan, or changes the given fields of one; limits count over all keys of an account
    /// (operators only)
    #[command(
        after_help = "Example:\n  ctl plan set team --trial-credit 5 --rpm 600 --model gpt-5"
    )]
    Set(Set),
}

/// Input of `ctl plan show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The plan's name
    pub(crate) name: String,
}

/// Input of `ctl plan set`. Limits count over all keys of an account.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The plan's name
    pub(crate) name: String,
    /// What a new account is given once, in US dollars
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) trial_credit: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// A model that it may use; repeatable; replaces the list, an empty one allows all
    #[arg(long = "model", value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Option<Vec<String>>,
}
