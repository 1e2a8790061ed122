//! `ctl ledger …`

use clap::{Args, Subcommand};

/// A command on the ledger.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Lists ledger entries, newest first: what changed a balance, by how much and why
    #[command(after_help = "Example:\n  ctl ledger list --account alice --limit 20 -o jsonl")]
    List(List),
    /// Recomputes balances, charges and sums; exits 1 if anything differs (operators only)
    #[command(after_help = "Example:\n  ctl ledger verify && echo the books are right")]
    Verify,
}

/// Input of `ctl ledger list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Of this account, by name or id
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u32,
}
