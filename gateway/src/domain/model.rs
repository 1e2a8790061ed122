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
}
