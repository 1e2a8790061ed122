//! The model catalogue: available models, their capabilities and prices.

use super::fetched::ListEntry;
use super::plans::Limits;
use super::recent::Recent;
use super::table::{Tabular, Value};
use super::upstreams::{HealthStatus, Upstream};

/// A model in the catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogueModel {
    /// The model id used in requests.
    pub id: String,
    /// The human-readable name.
    pub display_name: String,
    /// A one-sentence description.
    pub description: String,
    /// The context window: input and output together, in tokens.
    pub context: Option<u64>,
    /// The maximum output, in tokens.
    pub max_output: Option<u64>,
    /// Limits across all accounts.
    pub limits: Limits,
    /// The price per million tokens.
    pub price: Price,
    /// The supported features.
    pub abilities: Vec<Ability>,
    /// The accepted input modalities; empty if unspecified.
    pub inputs: Vec<Modality>,
    /// Alternative model ids for requests.
    pub aliases: Vec<String>,
    /// Where the model is served; empty unless an operator is signed in.
    pub deployments: Vec<Deployment>,
    /// Its recent requests, if there are any.
    pub recent: Option<Recent>,
}

/// The price per million tokens: exact decimals in US dollars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// The price of uncached input.
    pub input_usd: Option<String>,
    /// The price of input read from a cache.
    pub cached_usd: Option<String>,
    /// The price of output.
    pub output_usd: Option<String>,
    /// Increases with each price change.
    pub version: u32,
}

/// A feature that a model supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Tool calls.
    Tools,
    /// Image input.
    Vision,
    /// Reasoning output.
    Reasoning,
    /// Output that follows a JSON schema.
    StructuredOutput,
    /// The `verbosity` parameter.
    Verbosity,
}

/// A kind of message content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// An upstream that serves a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The upstream's name.
    pub upstream: String,
    /// The model id on the upstream; empty if it equals the catalogue id.
    pub model: String,
    /// The share of requests among deployments of the same priority.
    pub weight: u32,
    /// Lower values are tried first.
    pub priority: u32,
}

impl Ability {
    /// Returns the display name.
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
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::File => "file",
            Self::Audio => "audio",
        }
    }
}

impl Tabular for CatalogueModel {
    const COLUMNS: &'static [&'static str] = &[
        "model",
        "context",
        "output",
        "in $/M",
        "cached",
        "out $/M",
        "recent",
        "p50",
        "p99",
        "abilities",
        "limits",
    ];
    const SHOWN: &'static [&'static str] = &[
        "model",
        "health",
        "context",
        "output",
        "in $/M",
        "cached",
        "out $/M",
        "recent",
        "p50",
        "p99",
        "abilities",
        "limits",
    ];

    fn value(&self, column: &str) -> Value {
        match column {
            "model" => Value::text(&self.id),
            "context" => Value::count(self.context),
            "output" => Value::count(self.max_output),
            "in $/M" => Value::amount(self.price.input_usd.as_deref()),
            "cached" => Value::amount(self.price.cached_usd.as_deref()),
            "out $/M" => Value::amount(self.price.output_usd.as_deref()),
            "recent" => Value::count(self.recent.as_ref().map(|it| it.requests)),
            "p50" => Value::milliseconds(self.recent.as_ref().and_then(|it| it.p50_ms)),
            "p99" => Value::milliseconds(self.recent.as_ref().and_then(|it| it.p99_ms)),
            "abilities" => Value::text(
                &self.abilities.iter().map(|it| it.name()).collect::<Vec<_>>().join(" "),
            ),
            "limits" => Value::count(self.limits.rpm.or(self.limits.tpm)),
            _ => Value::Unknown,
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
    /// Parses `UPSTREAM:MODEL`, or `UPSTREAM` if the model id is the same there. Returns `None` if
    /// a part is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let (upstream, model) = match text.split_once(':') {
            Some((_, "")) => return None,
            Some((upstream, model)) => (upstream, model),
            None => (text, ""),
        };
        let [upstream, model] = [upstream, model].map(str::to_owned);
        (!upstream.is_empty()).then_some(Self { upstream, model, weight: 1, priority: 0 })
    }

    /// Returns the health of the deployment's upstream, if known.
    pub fn health_status(&self, upstreams: &[Upstream]) -> Option<HealthStatus> {
        upstreams.iter().find(|it| it.name == self.upstream)?.health_status()
    }
}

// === impl CatalogueModel ===

impl CatalogueModel {
    /// Returns the best known health among the deployments, because that is where requests go.
    pub fn health_status(&self, upstreams: &[Upstream]) -> Option<HealthStatus> {
        self.deployments.iter().filter_map(|it| it.health_status(upstreams)).min()
    }

    /// Returns whether the built-in simulator serves the model, as far as that is known.
    pub fn is_simulated(&self, upstreams: &[Upstream]) -> bool {
        let simulators = || upstreams.iter().filter(|it| it.is_simulator());
        self.deployments.iter().any(|it| simulators().any(|known| known.name == it.upstream))
    }

    /// Formats the deployments as a comma-separated list that [`Deployment::parse`] can read.
    pub fn deployments_text(&self) -> String {
        let format = |it: &Deployment| format!("{}:{}", it.upstream, it.model);
        self.deployments.iter().map(format).collect::<Vec<_>>().join(", ")
    }

    /// Returns a curl command that sends a chat request to the model, one line per element.
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

    /// Returns the command that writes a coding agent's configuration, one line per element.
    pub fn agent_config(&self, base_url: &str) -> [String; 2] {
        [
            format!("ctl agent-config codex --model {} \\", self.id),
            format!("  --base-url {base_url} > ~/.codex/tollgate.config.toml"),
        ]
    }
}
