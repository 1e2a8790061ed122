//! `ctl key …`

use clap::{Args, Subcommand};
use jiff::SignedDuration;

use super::limits::LimitFlags;
use super::value::{self, When};

/// A command on API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Creates a key; its secret is shown this once, with --quiet alone
    #[command(after_help = "Example:\n  ctl key create laptop --expires 30d --model gpt-5\n  \
        ctl key create ci --spend-cap 5 --rpm 60\n  \
        KEY=$(ctl key create ci --quiet)")]
    Create(Create),
    /// Lists keys, newest first, the revoked ones included
    #[command(after_help = "Example:\n  ctl key list")]
    List(List),
    /// Replaces a key by a new one that is like it; both work for a while. The secret is shown this once, with --quiet alone
    #[command(after_help = "Example:\n  ctl key rotate 9f2c41d0 --overlap 24h\n  \
        KEY=$(ctl key rotate 9f2c41d0 --quiet)")]
    Rotate(Rotate),
    /// Revokes a key at once; asks first on a terminal
    #[command(after_help = "Example:\n  ctl key revoke 9f2c41d0")]
    Revoke(Revoke),
}

/// Input of `ctl key create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What to call it
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// The most that it may spend in all, in US dollars [default: no cap]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) spend_cap: Option<String>,
    /// When it ends by itself: 30d, 12h, 90m from now, or an RFC 3339 time [default: never]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) expires: Option<When>,
    /// A model that it may use; repeatable [default: all that the plan allows]
    #[arg(long = "model", value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// Refuse on /v1/responses whatever an upstream cannot do exactly, instead of reporting the loss
    #[arg(long)]
    pub(crate) strict: bool,
    /// Leave hosted tools (web search and the like) out on /v1/responses instead of refusing them
    #[arg(long, conflicts_with = "strict")]
    pub(crate) omit_hosted_tools: bool,
    /// Read the answer to its end for so many seconds when its client goes away, to be charged by what
    /// the upstream says [default: stop the upstream]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) drain: Option<u64>,
}

/// Input of `ctl key list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Those of this account, by name or id [default: your own]
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Those of all accounts (operators only)
    #[arg(long, conflicts_with = "account")]
    pub(crate) all: bool,
}

/// Input of `ctl key rotate`.
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The public id of the key to replace
    pub(crate) id: String,
    /// How long the old key goes on working; 0s revokes it at once
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = value::span)]
    pub(crate) overlap: SignedDuration,
}

/// Input of `ctl key revoke`.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The key's public id
    pub(crate) id: String,
}
