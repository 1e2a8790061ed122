//! Upstreams: the chat servers that we call.

use std::time::Duration;

use jiff::Timestamp;

use super::id::UpstreamName;

/// The most credentials of one upstream.
pub const MAX_CREDENTIALS: usize = 32;

/// The configuration of an upstream. Its health is in [`Health`](super::health::Health).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The unique name.
    pub name: UpstreamName,
    /// The base URL, to which `/chat/completions` is appended, or `sim:` for the built-in
    /// simulator.
    pub url: String,
    /// The proxy through which it is reached.
    pub proxy: ProxyChoice,
    /// The sources of its credentials, which requests use in turn; empty if it requires none.
    pub credentials: Vec<CredentialSource>,
    /// The API dialect.
    pub profile: Profile,
    /// The timeouts.
    pub deadlines: Deadlines,
    /// The trusted CA certificates, in PEM, in place of the system's and the public ones.
    pub ca_certificates: Option<String>,
    /// The certificate that it demands of the gateway.
    pub client_certificate: Option<ClientCertificate>,
    /// The bound on its connections; `None` means unbounded.
    pub connection_bound: Option<ConnectionBound>,
    /// How it is checked in the background; `None` if it is not.
    pub health_check: Option<HealthCheck>,
    /// The time at which the upstream was added.
    pub created_at: Timestamp,
}

impl Upstream {
    /// Returns an upstream with this URL that requires no credential, and the defaults for all else.
    pub fn new(name: UpstreamName, url: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            name,
            url: url.into(),
            proxy: ProxyChoice::Environment,
            credentials: Vec::new(),
            profile: Profile::Generic,
            deadlines: Deadlines::default(),
            ca_certificates: None,
            client_certificate: None,
            connection_bound: None,
            health_check: None,
            created_at,
        }
    }

    /// Returns the sources of all its secrets, other than the key of the client certificate.
    pub fn secret_sources(&self) -> impl Iterator<Item = &CredentialSource> {
        let password = self.proxy.login().map(|login| &login.password);
        self.credentials.iter().chain(password)
    }
}

/// Which proxy is between the gateway and an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// The proxy that the environment of the gateway names, if the configuration permits its use; otherwise none.
    #[default]
    Environment,
    /// None, whatever the environment names.
    Direct,
    /// The proxy of the catalogue entry.
    Configured(Proxy),
}

impl ProxyChoice {
    /// The text that stands for [`Direct`](Self::Direct) in place of a URL.
    pub const DIRECT: &str = "direct";

    /// Returns the text form: a URL, [`DIRECT`](Self::DIRECT), or `None` for [`Environment`](Self::Environment).
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Environment => None,
            Self::Direct => Some(Self::DIRECT),
            Self::Configured(proxy) => Some(&proxy.url),
        }
    }

    /// Returns the login of the configured proxy.
    pub fn login(&self) -> Option<&ProxyLogin> {
        match self {
            Self::Environment | Self::Direct => None,
            Self::Configured(proxy) => proxy.login.as_ref(),
        }
    }
}

/// A proxy that opens tunnels to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The URL: `http://HOST:PORT` (CONNECT) or `socks5://HOST:PORT`.
    pub url: String,
    /// The login that it demands.
    pub login: Option<ProxyLogin>,
}

/// The user name and the source of the password for a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyLogin {
    /// The user name.
    pub user: String,
    /// The source of the password.
    pub password: CredentialSource,
}

/// A certificate with which the gateway identifies itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate chain in PEM, end-entity certificate first.
    pub chain: String,
    /// The private key in PEM, encrypted like [`CredentialSource::Sealed`].
    pub sealed_key: Vec<u8>,
}

/// The bound on the connections to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionBound {
    /// The most connections of all workers, or with HTTP/2 the most requests.
    pub max_connections: u32,
    /// The most requests that wait for one of them.
    pub max_waiting: u32,
}

impl ConnectionBound {
    /// The default of [`max_waiting`](Self::max_waiting).
    pub const DEFAULT_WAITING: u32 = 100;
}

/// A request that is sent in intervals. An upstream that does not answer it with a status 2xx gets requests only if no
/// other one can serve them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path and query of the GET request, at the origin of the upstream's URL.
    pub path: String,
    /// The time between two requests.
    pub interval: Duration,
}

impl HealthCheck {
    /// The default of [`interval`](Self::interval).
    pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
}

/// The position of a credential among those of its upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CredentialIndex(pub u8);

impl CredentialIndex {
    /// Returns the number with which it is shown, counted from 1.
    pub fn number(self) -> u32 {
        u32::from(self.0) + 1
    }
}

/// The source of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// The name of an environment variable of the gateway.
    Env(String),
    /// The path of a file on the gateway's host.
    File(String),
    /// A credential that `control::seal` encrypted with the data directory's key.
    Sealed(Vec<u8>),
}

/// An upstream's dialect of the chat-completions API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Any server that speaks chat completions.
    #[default]
    Generic,
    /// OpenAI itself.
    OpenAi,
    /// vLLM.
    Vllm,
    /// llama.cpp's server.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// SGLang.
    SgLang,
}

/// Timeouts of an upstream; `None` means the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// For connecting, including the TLS handshake.
    pub connect: Option<Duration>,
    /// From sending the request to the response head.
    pub first_byte: Option<Duration>,
    /// Between two reads of the response body.
    pub idle: Option<Duration>,
    /// From sending the request to the end of the answer; no timeout by default.
    pub total: Option<Duration>,
}

impl Deadlines {
    /// Returns the connect timeout; 10 s by default.
    pub fn connect(&self) -> Duration {
        self.connect.unwrap_or(Duration::from_secs(10))
    }

    /// Returns the timeout for the response head; 600 s by default, because local servers process a
    /// long prompt for minutes before they respond. It is no longer than that for the whole response.
    pub fn first_byte(&self) -> Duration {
        let first_byte = self.first_byte.unwrap_or(Duration::from_mins(10));
        self.total.map_or(first_byte, |total| total.min(first_byte))
    }

    /// Returns the timeout between two reads; 300 s by default.
    pub fn idle(&self) -> Duration {
        self.idle.unwrap_or(Duration::from_mins(5))
    }
}
