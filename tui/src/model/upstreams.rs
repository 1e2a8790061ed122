//! Upstream chat servers and their health.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::recent::Recent;
use super::table::{Tabular, Value};
use super::traffic::Percentiles;

/// An upstream chat server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Upstream {
    /// The unique name.
    pub name: String,
    /// The base URL.
    pub url: String,
    /// The sources of its credentials, which requests use in turn; empty if it needs none.
    pub credentials: Vec<Credential>,
    /// What the server accepts.
    pub profile: Profile,
    /// The timeouts of requests.
    pub deadlines: Deadlines,
    /// The problem with the credential, if any.
    pub problem: Option<String>,
    /// The URL of the proxy through which it is reached, or `direct`.
    pub proxy: Option<String>,
    /// The user name for the proxy.
    pub proxy_user: Option<String>,
    /// The most connections, and the most requests that wait for one.
    pub max_connections: Option<(u32, u32)>,
    /// The path of the health check, and its interval in milliseconds.
    pub health_check: Option<(String, u32)>,
    /// The creation time.
    pub created_at: Option<Timestamp>,
    /// The health; `None` if unknown.
    pub health: Option<Health>,
    /// Its recent requests, if there are any.
    pub recent: Option<Recent>,
}

/// The timeouts of requests in milliseconds; `None` for the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// For connecting, with the TLS handshake.
    pub connect_ms: Option<u64>,
    /// For the response head.
    pub first_byte_ms: Option<u64>,
    /// Between two pieces of the response body.
    pub idle_ms: Option<u64>,
    /// For the whole response.
    pub total_ms: Option<u64>,
}

/// The source of a credential; never contains the credential itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An environment variable of the gateway.
    Variable(String),
    /// A file on the gateway's host.
    File(String),
    /// Stored encrypted in the gateway's database.
    Sealed,
}

/// The kind of server, which says what it accepts in chat completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Any server with a chat completions API.
    #[default]
    Generic,
    /// `OpenAI`.
    OpenAi,
    /// vLLM.
    Vllm,
    /// The llama.cpp server.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// `SGLang`.
    SgLang,
}

/// The health of an upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// The upstream's name.
    pub name: String,
    /// The circuit breaker's state.
    pub breaker: Option<BreakerState>,
    /// The time of the next probe, while the breaker is open.
    pub retry_at: Option<Timestamp>,
    /// The number of requests in flight.
    pub in_flight: u64,
    /// The number of requests in the last five minutes.
    pub requests: u64,
    /// How many of those requests failed because of the upstream.
    pub failures: u64,
    /// The time to the response head.
    pub latency: Option<Percentiles>,
    /// The most recent error.
    pub last_error: Option<String>,
    /// The time of the most recent error.
    pub last_error_at: Option<Timestamp>,
    /// The result of the health check; `None` without one.
    pub check: Option<CheckState>,
    /// The state of each credential, in order.
    pub credentials: Vec<CredentialHealth>,
}

/// The state of one credential of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialHealth {
    /// Until when other credentials are used first.
    pub paused_until: Option<Timestamp>,
    /// The number of requests that were sent with it.
    pub requests: u64,
    /// How many of those requests it was refused for.
    pub refusals: u64,
    /// Why the gateway could not read it; `None` if it could.
    pub problem: Option<String>,
}

/// The result of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// One of the last two checks succeeded.
    Passing,
    /// The last two checks failed: requests go to other upstreams.
    Failing,
}

/// A summary of an upstream's health. Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    /// Recent requests succeeded.
    Healthy,
    /// There were no recent requests.
    Idle,
    /// Requests are in flight, and none has ended recently: a model may be slow, or the server hang.
    Waiting,
    /// Some recent requests failed, or one of several credentials is missing.
    Shaky,
    /// The breaker is half open: one request probes the upstream.
    Probing,
    /// The breaker is open, or half open while all recent requests failed, or the health check fails:
    /// requests go to other upstreams.
    Down,
    /// The credential is missing or unusable.
    NoKey,
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests are sent.
    Closed,
    /// No requests are sent.
    Open,
    /// One request probes the upstream.
    HalfOpen,
}

// === impl Deadlines ===

impl Deadlines {
    /// Returns what has to be set after `before`, and `None` for what stays. Zero sets the default.
    #[must_use]
    pub fn changed_from(self, before: Self) -> Self {
        let changed =
            |before: Option<u64>, after: Option<u64>| (before != after).then(|| after.unwrap_or(0));
        Self {
            connect_ms: changed(before.connect_ms, self.connect_ms),
            first_byte_ms: changed(before.first_byte_ms, self.first_byte_ms),
            idle_ms: changed(before.idle_ms, self.idle_ms),
            total_ms: changed(before.total_ms, self.total_ms),
        }
    }
}

// === impl Upstream ===

impl Upstream {
    /// Returns whether it is the simulator that is built into the gateway.
    pub fn is_simulator(&self) -> bool {
        self.url.starts_with("sim:")
    }

    /// Returns the health summary, if known.
    pub fn health_status(&self) -> Option<HealthStatus> {
        let health = self.health.as_ref();
        // The other credentials serve if one cannot be read.
        let has_key = health.is_some_and(|it| it.credentials.iter().any(|it| it.problem.is_none()));
        match &self.problem {
            Some(_) if !has_key => Some(HealthStatus::NoKey),
            Some(_) => self.state().max(Some(HealthStatus::Shaky)),
            None => self.state(),
        }
    }

    /// Returns the health summary by recent requests, if known.
    fn state(&self) -> Option<HealthStatus> {
        let health = self.health.as_ref()?;
        if health.check == Some(CheckState::Failing) {
            return Some(HealthStatus::Down);
        }
        Some(match health.breaker? {
            BreakerState::Open => HealthStatus::Down,
            BreakerState::HalfOpen if health.failures > 0 && health.failures >= health.requests => {
                HealthStatus::Down
            }
            BreakerState::HalfOpen => HealthStatus::Probing,
            BreakerState::Closed if health.failures > 0 => HealthStatus::Shaky,
            BreakerState::Closed if health.requests > 0 => HealthStatus::Healthy,
            BreakerState::Closed if health.in_flight > 0 => HealthStatus::Waiting,
            BreakerState::Closed => HealthStatus::Idle,
        })
    }
}

impl Tabular for Upstream {
    const COLUMNS: &'static [&'static str] =
        &["name", "health", "in flight", "5 min", "failed", "recent", "p50", "p99", "URL"];

    fn value(&self, column: &str) -> Value {
        let health = |pick: fn(&Health) -> u64| self.health.as_ref().map(pick);
        let latency = self.health.as_ref().and_then(|it| it.latency);
        match column {
            "name" => Value::text(&self.name),
            "health" => Value::optional_text(self.health_status().map(HealthStatus::name)),
            "in flight" => Value::count(health(|it| it.in_flight)),
            "5 min" => Value::count(health(|it| it.requests)),
            "failed" => Value::count(health(|it| it.failures)),
            "p50" => Value::milliseconds(latency.map(|it| it.p50_ms)),
            "p99" => Value::milliseconds(latency.map(|it| it.p99_ms)),
            "recent" => Value::count(self.recent.as_ref().map(|it| it.requests)),
            "URL" => Value::text(&self.url),
            _ => Value::Unknown,
        }
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
    /// Returns a description that does not reveal the credential.
    pub fn describe(&self) -> String {
        match self {
            Self::Variable(name) => format!("variable {name}"),
            Self::File(path) => format!("file {path}"),
            Self::Sealed => "stored sealed".to_owned(),
        }
    }
}

// === impl Profile ===

impl Profile {
    /// All profiles, in the order of the form.
    pub const ALL: [Self; 6] =
        [Self::Generic, Self::OpenAi, Self::Vllm, Self::LlamaCpp, Self::Ollama, Self::SgLang];
    /// The names of all profiles, in this order.
    pub const NAMES: &'static [&'static str] =
        &["generic", "openai", "vllm", "llamacpp", "ollama", "sglang"];

    /// Returns the name used by `ctl` and in forms.
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

    /// Returns the profile with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

// === impl HealthStatus ===

impl HealthStatus {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Shaky => "shaky",
            Self::Probing => "probing",
            Self::Down => "down",
            Self::NoKey => "no key",
        }
    }
}

// === impl CheckState ===

impl CheckState {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Failing => "failing",
        }
    }
}

// === impl BreakerState ===

impl BreakerState {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half open",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_offers_every_profile() {
        assert_eq!(Profile::NAMES, Profile::ALL.map(Profile::name));
    }

    /// Regression test: an upstream with one missing credential was shown as one without a key.
    #[test]
    fn an_upstream_with_one_missing_credential_has_a_key() {
        let missing = || CredentialHealth {
            problem: Some("it is not set".to_owned()),
            ..CredentialHealth::default()
        };
        let check = |credentials: Vec<CredentialHealth>, breaker, expected| {
            let health =
                Health { credentials, breaker: Some(breaker), requests: 1, ..Health::default() };
            let problem = Some("credential 1: it is not set".to_owned());
            let upstream = Upstream { problem, health: Some(health), ..Upstream::default() };
            assert_eq!(upstream.health_status(), Some(expected));
        };
        let serving = CredentialHealth::default;
        check(vec![missing(), serving()], BreakerState::Closed, HealthStatus::Shaky);
        check(vec![missing(), serving()], BreakerState::Open, HealthStatus::Down);
        check(vec![missing(), missing()], BreakerState::Closed, HealthStatus::NoKey);
        check(vec![missing()], BreakerState::Closed, HealthStatus::NoKey);
        check(Vec::new(), BreakerState::Closed, HealthStatus::NoKey);
    }

    #[test]
    fn an_upstream_with_requests_of_which_none_has_ended_is_waiting() {
        for (requests, in_flight, expected) in [
            (0, 0, HealthStatus::Idle),
            (0, 1, HealthStatus::Waiting),
            (1, 1, HealthStatus::Healthy),
        ] {
            let breaker = Some(BreakerState::Closed);
            let health = Health { breaker, in_flight, requests, ..Health::default() };
            let upstream = Upstream { health: Some(health), ..Upstream::default() };
            assert_eq!(upstream.health_status(), Some(expected), "{in_flight} of {requests}");
        }
    }

    #[test]
    fn a_probed_upstream_is_down_while_nothing_succeeds() {
        for (requests, failures, expected) in [
            (0, 0, HealthStatus::Probing),
            (9, 8, HealthStatus::Probing),
            (9, 9, HealthStatus::Down),
        ] {
            let breaker = Some(BreakerState::HalfOpen);
            let health = Health { breaker, requests, failures, ..Health::default() };
            let upstream = Upstream { health: Some(health), ..Upstream::default() };
            assert_eq!(upstream.health_status(), Some(expected), "{failures} of {requests}");
        }
    }
}
