//! The arguments of `ctl key`.

use clap::{Args, Subcommand};
use jiff::SignedDuration;

use super::limits::LimitFlags;
use super::value::{self, When};

/// The subcommands of `ctl key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key; the secret is shown only once (--quiet prints only the secret)
    #[command(after_help = "Example:\n  ctl key create laptop --expires 30d --model gpt-5\n  \
        ctl key create ci --spend-cap 5 --rpm 60\n  \
        KEY=$(ctl key create ci --quiet)")]
    Create(Create),
    /// List keys, newest first, including revoked keys
    #[command(after_help = "Example:\n  ctl key list")]
    List(List),
    /// Change the given fields of a key, from the next request on
    #[command(after_help = "Example:\n  ctl key set 9f2c41d0 --rpm 120 --spend-cap 20\n  \
        ctl key set 9f2c41d0 --rpm 0 --no-spend-cap --no-expiry --model ''")]
    Set(Set),
    /// Replace a key with a new one that has the same settings; both work during the overlap.
    /// The secret is shown only once (--quiet prints only the secret)
    #[command(after_help = "Example:\n  ctl key rotate 9f2c41d0 --overlap 24h\n  \
        KEY=$(ctl key rotate 9f2c41d0 --quiet)")]
    Rotate(Rotate),
    /// Revoke a key immediately; asks first on a terminal
    #[command(after_help = "Example:\n  ctl key revoke 9f2c41d0")]
    Revoke(Revoke),
}

/// Arguments of `ctl key create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Label of the key
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// Maximum total spending, in US dollars [default: no cap]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) spend_cap: Option<String>,
    /// Expiry: a duration from now (30d, 12h, 90m) or an RFC 3339 time [default: never]
    #[arg(long, value_name = "WHEN", value_parser = value::when)]
    pub(crate) expires: Option<When>,
    /// Model that the key may use; repeatable [default: all models of the plan]
    #[arg(long = "model", value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// On /v1/responses, refuse features that the upstream cannot reproduce exactly, instead of
    /// reporting the loss
    #[arg(long)]
    pub(crate) strict: bool,
    /// On /v1/responses, drop hosted tools (such as web search) instead of refusing the request
    #[arg(long, conflicts_with = "strict")]
    pub(crate) omit_hosted_tools: bool,
    /// When the client disconnects, keep reading the answer for up to SECONDS, so that the charge
    /// is the usage reported by the upstream [default: cancel the upstream request]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) drain: Option<u64>,
}

/// Arguments of `ctl key set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Public id of the key
    pub(crate) id: String,
    /// New label
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// Maximum total spending, in US dollars; may be less than what was spent
    #[arg(long, value_name = "USD", allow_hyphen_values = true, conflicts_with = "no_spend_cap")]
    pub(crate) spend_cap: Option<String>,
    /// Remove the spending cap
    #[arg(long)]
    pub(crate) no_spend_cap: bool,
    /// Expiry: a duration from now (30d, 12h, 90m) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = value::when, conflicts_with = "no_expiry")]
    pub(crate) expires: Option<When>,
    /// Let the key never expire
    #[arg(long)]
    pub(crate) no_expiry: bool,
    /// Model that the key may use; repeatable; replaces the list; an empty value allows all models
    /// of the plan
    #[arg(long = "model", value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) translation: TranslationFlags,
    /// When the client disconnects, keep reading the answer for up to SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600), conflicts_with = "no_drain")]
    pub(crate) drain: Option<u64>,
    /// When the client disconnects, cancel the upstream request
    #[arg(long)]
    pub(crate) no_drain: bool,
    /// Whether the spans that the gateway exports for the key's requests have the text of prompts
    /// and answers
    #[arg(long, value_name = "on|off", value_parser = value::on_or_off())]
    pub(crate) trace_content: Option<bool>,
}

/// How `/v1/responses` handles features that the upstream lacks; without a flag, this does not change.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct TranslationFlags {
    /// On /v1/responses, accept minor losses and report them
    #[arg(long)]
    pub(crate) lenient: bool,
    /// On /v1/responses, refuse features that the upstream cannot reproduce exactly
    #[arg(long)]
    pub(crate) strict: bool,
    /// On /v1/responses, drop hosted tools (such as web search) instead of refusing the request
    #[arg(long)]
    pub(crate) omit_hosted_tools: bool,
}

/// Arguments of `ctl key list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Keys of this account, by name or id [default: your account]
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Keys of all accounts (operators only)
    #[arg(long, conflicts_with = "account")]
    pub(crate) all: bool,
}

/// Arguments of `ctl key rotate`.
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// Public id of the key to replace
    pub(crate) id: String,
    /// How long the old key keeps working; 0s revokes it immediately
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = value::duration)]
    pub(crate) overlap: SignedDuration,
}

/// Arguments of `ctl key revoke`.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Public id of the key
    pub(crate) id: String,
}
