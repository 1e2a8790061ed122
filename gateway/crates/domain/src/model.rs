//! Models: what the catalogue lists, and where each is served.

use std::sync::Arc;

use jiff::Timestamp;

use super::id::{ModelId, UpstreamName};
use super::limit::Limits;
use super::price::Price;
use super::usage::Tokens;

/// One catalogue entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What requests name it.
    pub id: ModelId,
    /// What people call it. Never accepted as an id; may be empty.
    pub display_name: String,
    /// What it is, in a sentence; may be empty.
    pub description: String,
    /// Input and output together.
    pub context_window: Option<Tokens>,
    /// The longest answer.
    pub max_output_tokens: Option<Tokens>,
    /// Limits over all accounts.
    pub limits: Limits,
    /// What it costs.
    pub price: Price,
    /// What it can do.
    pub abilities: Vec<Ability>,
    /// What its messages may hold; empty if nobody said.
    pub inputs: Vec<Modality>,
    /// Other names that requests may use.
    pub aliases: Vec<ModelId>,
    /// Where it is served.
    pub deployments: Vec<Deployment>,
    /// When it was added.
    pub created_at: Timestamp,
}

/// One place where a model is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The upstream.
    pub upstream: UpstreamName,
    /// What the model is called there.
    pub upstream_model: Arc<str>,
    /// Its share among deployments of the same priority; at least 1.
    pub weight: u32,
    /// Lower ones are tried first.
    pub priority: u32,
}

/// What a model can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ability {
    /// It calls tools.
    Tools,
    /// It takes images.
    Vision,
    /// It gives its reasoning.
    Reasoning,
    /// It keeps to a JSON schema.
    StructuredOutput,
    /// It takes `verbosity`.
    Verbosity,
}

/// A kind of content that a message may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modality {
    /// Text.
    Text,
    /// Images.
    Image,
    /// Files.
    File,
    /// Recordings.
    Audio,
}

impl Model {
    /// Whether it takes such content; `None` if its entry does not say.
    pub fn takes(&self, modality: Modality) -> Option<bool> {
        match modality {
            Modality::Text => Some(true),
            _ if !self.inputs.is_empty() => Some(self.inputs.contains(&modality)),
            // before there were inputs, this ability said it
            Modality::Image if !self.abilities.is_empty() => {
                Some(self.abilities.contains(&Ability::Vision))
            }
            _ => None,
        }
    }
}

impl Modality {
    /// Its name for many, as in "takes no images".
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "images",
            Self::File => "files",
            Self::Audio => "audio",
        }
    }
}
