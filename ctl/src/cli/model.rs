//! The arguments of `ctl model`.

use clap::{Args, Subcommand};
use proto::v1::{Ability, Deployment, Input, Routing};

use super::limits::LimitFlags;
use super::value;

/// The subcommands of `ctl model`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// List models; members see only the models of their plan
    #[command(after_help = "Example:\n  ctl model list")]
    List,
    /// Show a model
    #[command(after_help = "Example:\n  ctl model show gpt-5")]
    Show(Named),
    /// Add a model (operators only)
    #[command(after_help = "Example:\n  \
        ctl model add llama3 --upstream ollama:llama3:8b --context 8192 --price-in 0.05 --price-out 0.10")]
    Add(Add),
    /// Change the given fields of a model (operators only)
    #[command(after_help = "Example:\n  ctl model update llama3 --rpm 60 --alias llama")]
    Update(Update),
    /// Remove a model, but keep its request records; asks first on a terminal (operators only)
    #[command(after_help = "Example:\n  ctl model remove llama3")]
    Remove(Named),
}

/// Arguments of `ctl model show` and `ctl model remove`.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Model id
    pub(crate) id: String,
}

/// Arguments of `ctl model add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Model id, as used in requests
    pub(crate) id: String,
    /// Upstream and the model's name there [default name: ID]; repeatable
    #[arg(
        long = "upstream", value_name = "NAME[:UPSTREAM_MODEL]", required = true,
        value_parser = value::deployment
    )]
    pub(crate) deployments: Vec<Deployment>,
    #[command(flatten)]
    pub(crate) entry: Entry,
}

/// Arguments of `ctl model update`.
#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Model id
    pub(crate) id: String,
    /// Upstream and the model's name there [default name: ID]; repeatable; replaces the list
    #[arg(
        long = "upstream", value_name = "NAME[:UPSTREAM_MODEL]",
        value_parser = value::deployment
    )]
    pub(crate) deployments: Option<Vec<Deployment>>,
    #[command(flatten)]
    pub(crate) entry: Entry,
}

/// The fields of a catalogue entry. Its limits count the requests of all accounts together.
#[derive(Debug, Args)]
pub(crate) struct Entry {
    /// Name for display; not accepted as an id
    #[arg(long, value_name = "TEXT")]
    pub(crate) display_name: Option<String>,
    /// One-sentence description
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Context window, in tokens; 0 if unknown
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u64>,
    /// Maximum output, in tokens; 0 if unknown
    #[arg(long, value_name = "N")]
    pub(crate) max_output: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// Price of a million uncached input tokens
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) price_in: Option<String>,
    /// Price of a million cached input tokens
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) price_cached: Option<String>,
    /// Price of a million output tokens
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    pub(crate) price_out: Option<String>,
    /// Alternative name for requests; repeatable; an empty value clears the list
    #[arg(long = "alias", value_name = "NAME", value_delimiter = ',')]
    pub(crate) aliases: Option<Vec<String>>,
    /// Ability; repeatable; an empty value clears the list
    #[arg(long = "ability", value_name = "ABILITY", value_parser = value::ability(), value_delimiter = ',')]
    pub(crate) abilities: Option<Vec<Ability>>,
    /// Accepted content types, such as `text,image,file,audio`; requests with others are refused;
    /// an empty value clears the list
    #[arg(long = "input", value_name = "INPUT", value_parser = value::input(), value_delimiter = ',')]
    pub(crate) inputs: Option<Vec<Input>>,
    /// How requests are spread over upstreams: by weight, to the less loaded of two, or each
    /// conversation to the same one, which has cached its beginning
    #[arg(long, value_name = "POLICY", value_parser = value::routing())]
    pub(crate) routing: Option<Routing>,
    /// How long an upstream may take to begin its answer, in milliseconds, before the request is
    /// also sent to the next one; 0 for never
    #[arg(long, value_name = "MS")]
    pub(crate) hedge_after_ms: Option<u64>,
}
