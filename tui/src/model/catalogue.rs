//! The catalogue: what clients can ask for, and what it costs.

use super::fetched::ListEntry;
use super::plans::Limits;
use super::upstreams::{HealthStatus, Upstream};

/// A model that is on offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueModel {
    /// What requests name it.
    pub id: String,
    /// What people call it.
    pub display_name: String,
    /// What it is, in a sentence.
    pub description: String,
    /// Input and output together, in tokens.
    pub context: Option<u64>,
    /// The longest answer, in tokens.
    pub max_output: Option<u64>,
    /// Limits over all accounts.
    pub limits: Limits,
    /// What a million tokens cost.
    pub price: Price,
    /// What it can do.
    pub abilities: Vec<Ability>,
    /// What its messages may hold; empty if nobody said.
    pub inputs: Vec<Modality>,
    /// Other names that requests may use.
    pub aliases: Vec<String>,
    /// Where it is served; only operators know.
    pub deployments: Vec<Deployment>,
}

/// What a million tokens cost: exact decimals in US dollars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Of input.
    pub input_usd: Option<String>,
    /// Of input that came from a cache.
    pub cached_usd: Option<String>,
    /// Of output.
    pub output_usd: Option<String>,
    /// Goes up with each change.
    pub version: u32,
}

/// What a model can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A kind of content that messages may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A place where a model is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The upstream's name.
    pub upstream: String,
    /// What the model is called there.
    pub model: String,
    /// Its share among those of the same priority.
    pub weight: u32,
    /// Higher numbers come later.
    pub priority: u32,
}

impl Ability {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Vision => "vision",
            Self::Reasoning => "reasoning",
            Self::StructuredOutput => "structured output",
            Self::Verbosity => "verbosity",
        }
    }
}

impl Modality {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::File => "file",
            Self::Audio => "audio",
        }
    }
}

impl ListEntry for CatalogueModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        let mut texts = vec![&*self.id, &self.display_name, &self.description];
        texts.extend(self.aliases.iter().map(String::as_str));
        texts.extend(self.abilities.iter().map(|ability| ability.name()));
        texts.extend(self.deployments.iter().map(|it| it.upstream.as_str()));
        texts
    }
}

// === impl Deployment ===

impl Deployment {
    /// Reads `UPSTREAM:MODEL`, or `UPSTREAM` where the model has its own id; `None` if a part is empty.
    pub fn parse(place: &str) -> Option<Self> {
        let (upstream, model) = match place.split_once(':') {
            Some((_, "")) => return None,
            Some((upstream, model)) => (upstream, model),
            None => (place, ""),
        };
        let [upstream, model] = [upstream, model].map(str::to_owned);
        (!upstream.is_empty()).then_some(Self { upstream, model, weight: 1, priority: 0 })
    }

    /// Says how its upstream does, if that is known.
    pub fn health_status(&self, upstreams: &[Upstream]) -> Option<HealthStatus> {
        upstreams.iter().find(|it| it.name == self.upstream)?.health_status()
    }
}

// === impl Offer ===

impl CatalogueModel {
    /// Says how it does where it does best, as far as that is known: that is where requests go.
    pub fn health_status(&self, upstreams: &[Upstream]) -> Option<HealthStatus> {
        self.deployments.iter().filter_map(|it| it.health_status(upstreams)).min()
    }

    /// Writes where it is served as [`Deployment::parse`] reads it, with commas between.
    pub fn deployments_text(&self) -> String {
        let place = |it: &Deployment| format!("{}:{}", it.upstream, it.model);
        self.deployments.iter().map(place).collect::<Vec<_>>().join(", ")
    }

    /// Returns a curl command that asks it something, a line per entry.
    pub fn curl(&self, base_url: &str) -> [String; 4] {
        [
            format!("curl {base_url}/chat/completions \\"),
            "  -H \"Authorization: Bearer $TOLLGATE_API_KEY\" \\".to_owned(),
            "  -H \"Content-Type: application/json\" \\".to_owned(),
            format!(
                "  -d '{{\"model\": \"{}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'",
                self.id
            ),
        ]
    }

    /// Returns the command that writes a coding agent's configuration.
    pub fn agent_config(&self, base_url: &str) -> [String; 2] {
        [
            format!("ctl agent-config codex --model {} \\", self.id),
            format!("  --base-url {base_url} > ~/.codex/tollgate.config.toml"),
        ]
    }
}
