//! The arguments of `ctl ledger`.

use clap::{Args, Subcommand};

/// The subcommands of `ctl ledger`.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// List ledger entries, newest first: each change of a balance and its reason
    #[command(after_help = "Example:\n  ctl ledger list --account alice --limit 20 -o jsonl")]
    List(List),
    /// Recompute balances, charges and sums; exits with 1 on any difference (operators only)
    #[command(after_help = "Example:\n  ctl ledger verify && echo the books are right")]
    Verify,
}

/// Arguments of `ctl ledger list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only entries of this account, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u32,
}
