//! Upstreams: the chat servers behind the gateway, and how they do.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::traffic::Percentiles;

/// An upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Upstream {
    /// The name.
    pub name: String,
    /// The base URL.
    pub url: String,
    /// Where its credential comes from.
    pub credential: Credential,
    /// Its dialect.
    pub profile: Profile,
    /// What is wrong with the credential, if anything.
    pub problem: Option<String>,
    /// When it was added.
    pub created_at: Option<Timestamp>,
    /// How it does; `None` until that is known.
    pub health: Option<Health>,
}

/// Where a credential comes from; never the credential itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// It wants none.
    #[default]
    None,
    /// A variable of the gateway.
    Variable(String),
    /// A file on the gateway's host.
    File(String),
    /// It is stored sealed.
    Sealed,
}

/// What dialect of chat completions an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Any server that speaks chat completions.
    #[default]
    Generic,
    /// `OpenAI` itself.
    OpenAi,
    /// vLLM.
    Vllm,
    /// llama.cpp's server.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// `SGLang`.
    SgLang,
}

/// How an upstream does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// The upstream's name.
    pub name: String,
    /// Whether requests are sent to it.
    pub breaker: Option<BreakerState>,
    /// When one will be sent to it again, while the breaker is open.
    pub retry_at: Option<Timestamp>,
    /// Requests under way there.
    pub in_flight: u64,
    /// Requests of the last five minutes.
    pub requests: u64,
    /// How many of those failed by its fault.
    pub failures: u64,
    /// Time to the head of an answer.
    pub latency: Option<Percentiles>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When that was.
    pub last_error_at: Option<Timestamp>,
}

/// How an upstream does, in a word; the better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    /// It answers.
    Healthy,
    /// Nothing was sent there of late that could tell.
    Idle,
    /// Some of its answers fail.
    Shaky,
    /// It was down, and a request is sent to see.
    Probing,
    /// Requests go elsewhere.
    Down,
    /// There is no key for it.
    NoKey,
}

/// Whether requests are sent to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// They are.
    Closed,
    /// They go elsewhere.
    Open,
    /// One is sent to see.
    HalfOpen,
}

// === impl Upstream ===

impl Upstream {
    /// Says how it does, if that is known.
    pub fn health_status(&self) -> Option<HealthStatus> {
        if self.problem.is_some() {
            return Some(HealthStatus::NoKey);
        }
        let health = self.health.as_ref()?;
        Some(match health.breaker? {
            BreakerState::Open => HealthStatus::Down,
            BreakerState::HalfOpen => HealthStatus::Probing,
            BreakerState::Closed if health.failures > 0 => HealthStatus::Shaky,
            BreakerState::Closed if health.requests == 0 => HealthStatus::Idle,
            BreakerState::Closed => HealthStatus::Healthy,
        })
    }
}

impl ListEntry for Upstream {
    fn id(&self) -> &str {
        &self.name
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.name, &self.url, self.profile.name()]
    }
}

// === impl Credential ===

impl Credential {
    /// Describes it without giving it away.
    pub fn describe(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Variable(name) => format!("variable {name}"),
            Self::File(path) => format!("file {path}"),
            Self::Sealed => "stored sealed".to_owned(),
        }
    }
}

// === impl Profile ===

impl Profile {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Generic, Self::OpenAi, Self::Vllm, Self::LlamaCpp, Self::Ollama, Self::SgLang];

    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::OpenAi => "openai",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llamacpp",
            Self::Ollama => "ollama",
            Self::SgLang => "sglang",
        }
    }

    /// Returns the one of that name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

// === impl Condition ===

impl HealthStatus {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Idle => "idle",
            Self::Shaky => "shaky",
            Self::Probing => "probing",
            Self::Down => "down",
            Self::NoKey => "no key",
        }
    }
}

// === impl Breaker ===

impl BreakerState {
    /// Returns what it means for requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half open",
        }
    }
}
