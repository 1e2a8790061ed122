//! Models of the catalogue and their deployments.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::id::{ModelId, UpstreamName};
use super::limit::Limits;
use super::price::Price;
use super::usage::Tokens;

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The id, which requests name.
    pub id: ModelId,
    /// The name for display. Never accepted as an id; may be empty.
    pub display_name: String,
    /// A one-sentence description; may be empty.
    pub description: String,
    /// The maximum of input and output together.
    pub context_window: Option<Tokens>,
    /// The maximum length of an answer.
    pub max_output_tokens: Option<Tokens>,
    /// Limits over all accounts.
    pub limits: Limits,
    /// The price per million tokens.
    pub price: Price,
    /// The features that the model supports.
    pub abilities: Vec<Ability>,
    /// The content that messages may contain; empty if unknown.
    pub inputs: Vec<Modality>,
    /// Alternative ids that requests may use.
    pub aliases: Vec<ModelId>,
    /// The upstreams that serve the model.
    pub deployments: Vec<Deployment>,
    /// How requests are spread over deployments of the same priority.
    pub routing: Routing,
    /// How long an upstream may take to begin its answer before the request is also sent to the next deployment;
    /// `None` for never.
    pub hedge_after: Option<Duration>,
    /// The time at which the model was added.
    pub created_at: Timestamp,
}

/// An upstream that serves a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The upstream.
    pub upstream: UpstreamName,
    /// The upstream's name for the model.
    pub upstream_model: Arc<str>,
    /// The share of requests among deployments of the same priority; at least 1.
    pub weight: u32,
    /// Deployments with lower values are tried first.
    pub priority: u32,
}

/// How requests are spread over deployments of the same priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Routing {
    /// By chance, in proportion to the weights.
    #[default]
    Weighted,
    /// To the less loaded of two that are drawn in proportion to the weights.
    LeastLoaded,
    /// Each conversation to the same deployment, which has its beginning in its cache, unless that one has much
    /// more than its share of the load.
    PrefixAffinity,
}

/// A feature that a model supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ability {
    /// Tool calls.
    Tools,
    /// Images as input.
    Vision,
    /// Reasoning in the answer.
    Reasoning,
    /// Answers that conform to a JSON schema.
    StructuredOutput,
    /// The `verbosity` parameter.
    Verbosity,
}

/// A type of message content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modality {
    /// Text.
    Text,
    /// Images.
    Image,
    /// Files.
    File,
    /// Audio recordings.
    Audio,
}

impl Model {
    /// Returns a model without deployments, which costs nothing, and the defaults for all else.
    pub fn new(id: ModelId, created_at: Timestamp) -> Self {
        Self {
            id,
            display_name: String::new(),
            description: String::new(),
            context_window: None,
            max_output_tokens: None,
            limits: Limits::default(),
            price: Price::default(),
            abilities: Vec::new(),
            inputs: Vec::new(),
            aliases: Vec::new(),
            deployments: Vec::new(),
            routing: Routing::default(),
            hedge_after: None,
            created_at,
        }
    }

    /// Whether messages may contain `modality`; `None` if unknown.
    pub fn takes(&self, modality: Modality) -> Option<bool> {
        match modality {
            Modality::Text => Some(true),
            _ if !self.inputs.is_empty() => Some(self.inputs.contains(&modality)),
            // `Vision` is the older way to declare image input: entries may lack `inputs`.
            Modality::Image if !self.abilities.is_empty() => {
                Some(self.abilities.contains(&Ability::Vision))
            }
            _ => None,
        }
    }
}

impl Modality {
    /// Returns the plural for messages, as in "takes no images".
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "images",
            Self::File => "files",
            Self::Audio => "audio",
        }
    }
}
