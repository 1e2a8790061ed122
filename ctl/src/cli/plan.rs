//! The arguments of `ctl plan`.

use clap::{Args, Subcommand};

use super::limits::LimitFlags;

/// The subcommands of `ctl plan`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// List plans; members see only their own
    #[command(after_help = "Example:\n  ctl plan list")]
    List,
    /// Show a plan
    #[command(after_help = "Example:\n  ctl plan show free")]
    Show(Show),
    /// Create a plan, or change the given fields; limits apply to all keys of an account together
    /// (operators only)
    #[command(
        after_help = "Example:\n  ctl plan set team --trial-credit 5 --rpm 600 --model gpt-5"
    )]
    Set(Set),
}

/// Arguments of `ctl plan show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Plan name
    pub(crate) name: String,
}

/// Arguments of `ctl plan set`. The limits count the requests of all keys of an account together.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Plan name
    pub(crate) name: String,
    /// One-time credit for new accounts, in US dollars
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) trial_credit: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// Usable keys from which an account can make no more; 0 for the default of 100
    #[arg(long, value_name = "N")]
    pub(crate) max_keys: Option<u32>,
    /// Allowed model; repeatable; replaces the list; an empty value allows all models
    #[arg(long = "model", value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Option<Vec<String>>,
}
