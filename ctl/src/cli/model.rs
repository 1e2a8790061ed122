//! `ctl model …`

use clap::{Args, Subcommand};
use proto::v1::{Ability, Deployment, Input};

use super::limits::LimitFlags;
use super::value;

/// A command on the catalogue.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Lists models; members see those that their plan allows
    #[command(after_help = "Example:\n  ctl model list")]
    List,
    /// Shows a model
    #[command(after_help = "Example:\n  ctl model show gpt-5")]
    Show(Named),
    /// Adds a model (operators only)
    #[command(after_help = "Example:\n  \
        ctl model add llama3 --upstream ollama:llama3:8b --context 8192 --price-in 0.05 --price-out 0.10")]
    Add(Add),
    /// Changes the given fields of a model (operators only)
    #[command(after_help = "Example:\n  ctl model update llama3 --rpm 60 --alias llama")]
    Update(Update),
    /// Removes a model; its request records stay; asks first on a terminal (operators only)
    #[command(after_help = "Example:\n  ctl model remove llama3")]
    Remove(Named),
}

/// Input of `ctl model show` and `ctl model remove`.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The model's id
    pub(crate) id: String,
}

/// Input of `ctl model add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// What requests name it
    pub(crate) id: String,
    /// Where it is served, and what it is called there [default: ID]; repeatable
    #[arg(
        long = "upstream", value_name = "NAME[:UPSTREAM_MODEL]", required = true,
        value_parser = value::deployment
    )]
    pub(crate) deployments: Vec<Deployment>,
    #[command(flatten)]
    pub(crate) entry: Entry,
}

/// Input of `ctl model update`.
#[derive(Debug, Args)]
pub(crate) struct Update {
    /// The model's id
    pub(crate) id: String,
    /// Where it is served, and what it is called there [default: ID]; repeatable, replaces the list
    #[arg(
        long = "upstream", value_name = "NAME[:UPSTREAM_MODEL]",
        value_parser = value::deployment
    )]
    pub(crate) deployments: Option<Vec<Deployment>>,
    #[command(flatten)]
    pub(crate) entry: Entry,
}

/// What the catalogue says of a model. Limits count over all accounts.
#[derive(Debug, Args)]
pub(crate) struct Entry {
    /// What people call it; never accepted as an id
    #[arg(long, value_name = "TEXT")]
    pub(crate) display_name: Option<String>,
    /// What it is, in a sentence
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Its context window, in tokens; 0 if unknown
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u64>,
    /// Its longest answer, in tokens; 0 if unknown
    #[arg(long, value_name = "N")]
    pub(crate) max_output: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// The price of a million input tokens that were not cached
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) price_in: Option<String>,
    /// The price of a million cached input tokens
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) price_cached: Option<String>,
    /// The price of a million output tokens
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) price_out: Option<String>,
    /// Another name that requests may use; repeatable; an empty one clears the list
    #[arg(long = "alias", value_name = "NAME", value_delimiter = ',')]
    pub(crate) aliases: Option<Vec<String>>,
    /// What it can do; repeatable; an empty one clears the list
    #[arg(long = "ability", value_name = "ABILITY", value_parser = value::ability(), value_delimiter = ',')]
    pub(crate) abilities: Option<Vec<Ability>>,
    /// What its messages may hold, such as `text,image,file,audio`; anything else is refused; an empty one
    /// clears the list
    #[arg(long = "input", value_name = "INPUT", value_parser = value::input(), value_delimiter = ',')]
    pub(crate) inputs: Option<Vec<Input>>,
}
