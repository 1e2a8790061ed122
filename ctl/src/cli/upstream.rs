//! The arguments of `ctl upstream`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use proto::v1::Profile;

use super::value;

/// The subcommands of `ctl upstream`.
#[derive(Debug, Subcommand)]
pub(crate) enum UpstreamCommand {
    /// List upstreams and the state of their circuit breakers
    #[command(after_help = "Example:\n  ctl upstream list")]
    List,
    /// Show an upstream: its settings, and the state of each of its credentials
    #[command(after_help = "Example:\n  ctl upstream show example")]
    Show(Show),
    /// List the health of upstreams: breaker, requests, failures, latency, last error
    #[command(after_help = "Example:\n  ctl upstream health")]
    Health,
    /// Add an upstream
    #[command(after_help = "Example:\n  \
        ctl upstream add openai --url https://api.openai.com/v1 --key-env OPENAI_API_KEY --profile openai\n  \
        ctl upstream add local --url http://127.0.0.1:8000/v1 --profile vllm\n  \
        ctl upstream add shared --url https://api.example/v1 --key-env KEY_A --key-env KEY_B\n  \
        ctl upstream add inner --url https://models.internal/v1 --upstream-ca-file internal-ca.pem")]
    Add(Add),
    /// Change the given fields of an upstream
    #[command(after_help = "Example:\n  \
        ctl upstream update openai --key-stdin < key.txt\n  \
        ctl upstream update openai --proxy-user gate --proxy-password-env PROXY_PASSWORD\n  \
        ctl upstream update openai --key-keep 1 --key-env NEW_KEY")]
    Update(Update),
    /// Remove an upstream that has no deployments; asks first on a terminal
    #[command(after_help = "Example:\n  ctl upstream remove local")]
    Remove(Remove),
    /// Let requests go to an upstream again at once, after it was repaired
    ///
    /// Closes its circuit breaker, and ends the pauses of its credentials and the effect of failed health checks, on the
    /// gateway that is called. With several gateways, repeat it with the --server of each. Statistics stay, but the failures
    /// of this minute and earlier ones do not count towards the failure rate that opens the breaker. New failures open the
    /// breaker and pause credentials as before.
    #[command(after_help = "Example:\n  ctl upstream reset local")]
    Reset(Reset),
}

/// The sources of an upstream's credentials, which requests use in turn.
#[derive(Debug, Args)]
pub(crate) struct Credentials {
    /// Environment variable of the gateway that holds the credential; repeatable, as all --key-…:
    /// requests use several credentials in turn
    #[arg(long = "key-env", value_name = "VAR")]
    pub(crate) env: Vec<String>,
    /// File on the gateway's host that holds the credential
    #[arg(long = "key-file", value_name = "FILE")]
    pub(crate) file: Vec<String>,
    /// Read the credential from a line of stdin; the gateway stores it encrypted
    #[arg(long = "key-stdin", action = ArgAction::Count)]
    pub(crate) stdin: u8,
}

/// The timeouts of requests to an upstream.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
pub(crate) struct Deadlines {
    /// Connect timeout, in milliseconds; 0 for the default of 10,000
    #[arg(long, value_name = "MS")]
    pub(crate) connect_ms: Option<u64>,
    /// Timeout for the response head, in milliseconds; 0 for the default of 600,000
    #[arg(long, value_name = "MS")]
    pub(crate) first_byte_ms: Option<u64>,
    /// Idle timeout within the response body, in milliseconds; 0 for the default of 300,000
    #[arg(long, value_name = "MS")]
    pub(crate) idle_ms: Option<u64>,
    /// Timeout for the whole response, in milliseconds; 0, the default, for none
    #[arg(long, value_name = "MS")]
    pub(crate) total_ms: Option<u64>,
}

/// The bound on the connections to an upstream.
#[derive(Debug, Args)]
pub(crate) struct Bound {
    /// Most connections, of all workers together (most requests, if it speaks HTTP/2); 0 for no
    /// bound
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<u32>,
    /// Most requests that wait for a connection, each up to the connect timeout; 100 by default
    #[arg(long, value_name = "N")]
    pub(crate) max_waiting: Option<u32>,
}

/// The health check of an upstream.
#[derive(Debug, Args)]
pub(crate) struct HealthCheck {
    /// Path of a GET request at the origin of the URL, sent in the background: while the last two
    /// were not answered with 2xx, other upstreams are tried first
    #[arg(long, value_name = "PATH")]
    pub(crate) health_check: Option<String>,
    /// Interval of the health check, in milliseconds; 0 for the default of 10,000
    #[arg(long, value_name = "MS")]
    pub(crate) health_check_interval_ms: Option<u64>,
}

/// A new health check, or none.
#[derive(Debug, Args)]
pub(crate) struct HealthCheckChange {
    #[command(flatten)]
    pub(crate) new: HealthCheck,
    /// Send no health checks any more
    #[arg(long, conflicts_with_all = ["health_check", "health_check_interval_ms"])]
    pub(crate) no_health_check: bool,
}

/// The certificate with which the gateway identifies itself.
#[derive(Debug, Args)]
pub(crate) struct ClientCertificate {
    /// PEM file on this host with a certificate chain that identifies the gateway to this
    /// upstream; the gateway stores it
    #[arg(long = "client-cert", value_name = "FILE")]
    pub(crate) chain: Option<PathBuf>,
    /// PEM file on this host with the key of that certificate, which the gateway stores encrypted;
    /// not needed if the key is stored
    #[arg(long = "client-key", value_name = "FILE", requires = "chain")]
    pub(crate) key: Option<PathBuf>,
}

/// The proxy of an upstream.
#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Proxy to reach the upstream through, which resolves its name: `http://HOST:PORT` (with
    /// CONNECT) or `socks5://HOST:PORT`
    #[arg(id = "proxy", long = "proxy", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Connect without a proxy, also if the gateway uses those of its environment
    #[arg(id = "no_proxy", long = "no-proxy", conflicts_with = "proxy")]
    pub(crate) is_direct: bool,
    #[command(flatten)]
    pub(crate) login: ProxyLogin,
}

/// The login for a proxy.
#[derive(Debug, Args)]
pub(crate) struct ProxyLogin {
    /// User name for the proxy
    #[arg(long = "proxy-user", value_name = "NAME", conflicts_with = "no_proxy")]
    pub(crate) proxy_user: Option<String>,
    /// Environment variable of the gateway that holds the password for the proxy
    #[arg(
        id = "proxy_password_env",
        long = "proxy-password-env",
        value_name = "VAR",
        requires = "proxy_user",
        group = "proxy_password"
    )]
    pub(crate) env: Option<String>,
    /// File on the gateway's host that holds the password for the proxy
    #[arg(
        id = "proxy_password_file",
        long = "proxy-password-file",
        value_name = "FILE",
        requires = "proxy_user",
        group = "proxy_password"
    )]
    pub(crate) file: Option<String>,
    /// Read the password for the proxy from a line of stdin, after those of --key-stdin; the
    /// gateway stores it encrypted
    #[arg(
        id = "proxy_password_stdin",
        long = "proxy-password-stdin",
        requires = "proxy_user",
        group = "proxy_password"
    )]
    pub(crate) stdin: bool,
}

/// A new proxy, or none.
#[derive(Debug, Args)]
pub(crate) struct ProxyChange {
    #[command(flatten)]
    pub(crate) new: Proxy,
    /// Remove the choice of a proxy: connect through that of the gateway's environment, if the
    /// gateway uses it
    #[arg(long, conflicts_with_all = ["proxy", "no_proxy", "proxy_user"])]
    pub(crate) default_proxy: bool,
    /// Remove the user name and the password for the proxy
    #[arg(long, conflicts_with = "proxy_user")]
    pub(crate) no_proxy_user: bool,
}

/// Arguments of `ctl upstream add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Upstream name
    pub(crate) name: String,
    /// Base URL, to which the gateway appends `/chat/completions`; `sim:` for the simulator
    #[arg(long)]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) proxy: Proxy,
    #[command(flatten)]
    pub(crate) credentials: Credentials,
    /// Profile of the server: what it accepts in chat completions
    #[arg(long, value_parser = value::profile(), default_value = "generic")]
    pub(crate) profile: Profile,
    /// PEM file on this host with the CA certificates to trust for this upstream, instead of the
    /// host's and the public CAs; the gateway stores them
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client_certificate: ClientCertificate,
    #[command(flatten)]
    pub(crate) deadlines: Deadlines,
    #[command(flatten)]
    pub(crate) bound: Bound,
    #[command(flatten)]
    pub(crate) health_check: HealthCheck,
}

/// Arguments of `ctl upstream update`.
#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Upstream name
    pub(crate) name: String,
    /// New base URL
    #[arg(long)]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) proxy: ProxyChange,
    #[command(flatten)]
    pub(crate) credentials: Credentials,
    /// Keep the current credential of this number (see `ctl upstream show`) before those of the
    /// other --key-…, which otherwise replace all
    #[arg(long = "key-keep", value_name = "NUMBER")]
    pub(crate) kept: Vec<u32>,
    /// Remove all credentials
    #[arg(long, conflicts_with_all = ["env", "file", "stdin", "kept"])]
    pub(crate) no_key: bool,
    /// New profile
    #[arg(long, value_parser = value::profile())]
    pub(crate) profile: Option<Profile>,
    /// PEM file on this host with the CA certificates to trust for this upstream, instead of the
    /// host's and the public CAs; the gateway stores them
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca_file: Option<PathBuf>,
    /// Trust the host's and the public CAs again
    #[arg(long, conflicts_with = "upstream_ca_file")]
    pub(crate) no_upstream_ca: bool,
    /// Remove the certificate that identifies the gateway
    #[arg(long, conflicts_with = "chain")]
    pub(crate) no_client_cert: bool,
    #[command(flatten)]
    pub(crate) client_certificate: ClientCertificate,
    #[command(flatten)]
    pub(crate) deadlines: Deadlines,
    #[command(flatten)]
    pub(crate) bound: Bound,
    #[command(flatten)]
    pub(crate) health_check: HealthCheckChange,
}

/// Arguments of `ctl upstream show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Upstream name
    pub(crate) name: String,
}

/// Arguments of `ctl upstream remove`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Upstream name
    pub(crate) name: String,
}

/// Arguments of `ctl upstream reset`.
#[derive(Debug, Args)]
pub(crate) struct Reset {
    /// Upstream name
    pub(crate) name: String,
}
