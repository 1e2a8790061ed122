//! The settings of one source, and their merge with those of a source of lower precedence.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::address::{AdminAddress, listen_address};
use super::edge::EdgeSettings;
use super::metrics::MetricsAddress;
use super::otlp::OtlpSettings;
use super::responses::ResponsesSettings;
use super::store::DurabilitySetting;
use super::webhook::WebhookSettings;
use crate::telemetry::AccessLogSetting;

/// Takes each field from the first of two sources that has it. All fields must be listed, or the code does not compile.
macro_rules! merge {
    ($higher:ident or $lower:ident: $($field:ident),+ $(,)?) => {
        Self { $($field: $higher.$field.or($lower.$field)),+ }
    };
}
pub(super) use merge;

/// The settings of one source. `None` means that the source does not contain the setting.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Directory of the database, the operator token and the key that seals stored credentials
    /// [default: the XDG data home, `tollgate` in it]
    #[arg(long, value_name = "DIR", env = "TOLLGATE_DATA_DIR")]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub data_dir: Option<PathBuf>,
    /// Database: `sqlite` in the data directory, or the URL of a PostgreSQL database,
    /// `postgres://USER@HOST/DATABASE`, which several gateways may share [default: sqlite]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true, value_parser = super::store::secret_parser())]
    #[serde(deserialize_with = "super::store::deserialize_secret", skip_serializing)]
    pub store: Option<SecretString>,
    /// File with the password of the PostgreSQL database, unless the URL has one
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_PASSWORD_FILE")]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub store_password_file: Option<PathBuf>,
    /// File with the key that encrypts stored secrets: 64 hexadecimal digits [default: `seal.key` in the data directory,
    /// which the first start creates]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_SEAL_KEY_FILE")]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub seal_key_file: Option<PathBuf>,
    /// Environment variable with that key
    #[arg(long, value_name = "NAME", env = "TOLLGATE_SEAL_KEY_ENV")]
    pub seal_key_env: Option<String>,
    /// Shell command whose output is that key; it may take 30 seconds
    #[arg(long, value_name = "COMMAND", env = "TOLLGATE_SEAL_KEY_COMMAND", hide_env_values = true)]
    pub seal_key_command: Option<String>,
    /// Name of this gateway among those of a PostgreSQL database [default: the host name]
    #[arg(long, value_name = "NAME", env = "TOLLGATE_NODE_NAME")]
    pub node_name: Option<String>,
    /// Time for which requests are served while the PostgreSQL database cannot be reached, in seconds; they are then
    /// refused until it is reached again [default: 60]
    #[arg(long, value_name = "SECONDS", env = "TOLLGATE_STORE_PATIENCE_SECONDS")]
    pub store_patience_seconds: Option<u64>,
    /// Listen address of the API [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", env = "TOLLGATE_LISTEN", value_parser = listen_address)]
    #[serde(deserialize_with = "super::address::deserialize_listen")]
    pub listen: Option<SocketAddr>,
    /// Listen address of the admin plane, or `unix:/PATH` of a socket [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR", env = "TOLLGATE_ADMIN_LISTEN")]
    pub admin_listen: Option<AdminAddress>,
    /// Listen address of the metrics for Prometheus, which need no token: `http://ADDR/metrics`, or `off`
    /// [default: off]
    #[arg(long, value_name = "ADDR", env = "TOLLGATE_METRICS_LISTEN")]
    pub metrics_listen: Option<MetricsAddress>,
    /// Number of accounts, and of keys, that have their own metrics with their ids; the rest shares one. At most 200
    /// [default: 0]
    #[arg(long, value_name = "N", env = "TOLLGATE_METRICS_ACCOUNTS")]
    pub metrics_accounts: Option<u32>,
    /// Requests to log with their times, tokens and cost: `off`, `on`, or `sampled:N` for one in N and each one that
    /// failed [default: off]
    #[arg(long, value_name = "WHICH", env = "TOLLGATE_ACCESS_LOG")]
    pub access_log: Option<AccessLogSetting>,
    /// Base URL that clients of the API use, such as `https://gate.example/v1`, if the gateway is behind a proxy
    /// or a DNS name; ctl and tui print it [default: the listen address]
    #[arg(long, value_name = "URL", env = "TOLLGATE_PUBLIC_URL")]
    pub public_url: Option<String>,
    /// Certificate for both addresses, as a PEM file with its chain; plain HTTP without one
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CERT")]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as a PEM file
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY")]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub tls_key: Option<PathBuf>,
    /// Authority whose certificates clients of the admin plane must present, as a PEM file; needs a certificate of
    /// the gateway
    #[arg(long, value_name = "FILE", env = "TOLLGATE_ADMIN_CLIENT_CA")]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub admin_client_ca: Option<PathBuf>,
    /// Listen without TLS on addresses that other hosts can reach, where keys and prompts can be read on the way: on
    /// a trusted network, or behind a proxy that terminates TLS
    #[arg(long, env = "TOLLGATE_ALLOW_PLAINTEXT", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allow_plaintext: Option<bool>,
    /// Origins whose web pages may use the API (CORS), such as `https://app.example`, or `*` for all; repeatable
    /// [default: none]
    #[arg(long, value_name = "ORIGIN", env = "TOLLGATE_CORS_ORIGINS", value_delimiter = ',')]
    #[serde(deserialize_with = "super::address::deserialize_origins")]
    pub cors_origins: Option<Vec<String>>,
    /// Which callers may register accounts [default: open if the admin plane is on a loopback address, else
    /// invite]
    #[arg(long, value_name = "MODE", env = "TOLLGATE_REGISTRATION")]
    pub registration: Option<RegistrationMode>,
    /// Maximum registrations per client address and hour; 0 for no limit [default: 10]
    #[arg(long, value_name = "N", env = "TOLLGATE_REGISTRATIONS_PER_HOUR")]
    pub registrations_per_hour: Option<u32>,
    /// Maximum trial credit per day (UTC) over all accounts, in whole US dollars; further accounts start without
    /// trial credit [default: 100]
    #[arg(long, value_name = "USD", env = "TOLLGATE_TRIAL_DAILY_USD")]
    pub trial_daily_usd: Option<u32>,
    /// Threads that serve API connections; 0 for one for each core that the process may use [default: 0]
    #[arg(long, value_name = "N", env = "TOLLGATE_WORKERS")]
    pub workers: Option<usize>,
    /// Connect to upstreams through the proxies in `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, except to the hosts in
    /// `NO_PROXY`; upstreams with a choice in the catalogue keep theirs
    #[arg(long, env = "TOLLGATE_UPSTREAM_PROXY_FROM_ENVIRONMENT", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub upstream_proxy_from_environment: Option<bool>,
    /// Do not add the built-in simulator to the catalogue on the first start
    #[arg(long, env = "TOLLGATE_NO_SIMULATOR", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub no_simulator: Option<bool>,
    /// Maximum size of a request body, in bytes [default: 33554432]
    #[arg(long, value_name = "BYTES", env = "TOLLGATE_MAX_BODY_BYTES")]
    pub max_body_bytes: Option<usize>,
    /// Memory for all request bodies together, in bytes; one account may use half of what it leaves free [default:
    /// 268435456, or the maximum size of a body if that is greater]
    #[arg(long, value_name = "BYTES", env = "TOLLGATE_BODY_MEMORY_BYTES")]
    pub body_memory_bytes: Option<usize>,
    /// Time that a shutdown waits for requests in progress, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", env = "TOLLGATE_DRAIN_SECONDS")]
    pub drain_seconds: Option<u64>,
    /// Time that a shutdown keeps accepting connections after `/readyz` reports not ready, in seconds, so that
    /// load balancers notice [default: 0]
    #[arg(long, value_name = "SECONDS", env = "TOLLGATE_DRAIN_DELAY_SECONDS")]
    pub drain_delay_seconds: Option<u64>,
    /// Time after which the connection of a client that does not read its response is closed, in seconds; 0 for
    /// no limit [default: 120]
    #[arg(long, value_name = "SECONDS", env = "TOLLGATE_CLIENT_IDLE_SECONDS")]
    pub client_idle_seconds: Option<u64>,
    /// Maximum number of API connections, within the limit on open files; 0 for only that limit [default: 8192]
    #[arg(long, value_name = "N", env = "TOLLGATE_MAX_CONNECTIONS")]
    pub max_connections: Option<usize>,
    /// Maximum number of API connections from one non-local address; 0 for no limit, for example behind a proxy
    /// on another host [default: 1024]
    #[arg(long, value_name = "N", env = "TOLLGATE_MAX_CONNECTIONS_PER_ADDRESS")]
    pub max_connections_per_address: Option<usize>,
    /// Days to keep request records; 0 for no limit. Aggregates and ledger entries are always kept [default: 0]
    #[arg(long, value_name = "DAYS", env = "TOLLGATE_RECORDS_KEEP_DAYS")]
    pub records_keep_days: Option<u32>,
    /// Maximum number of request records to keep; the oldest are deleted first. 0 for no limit [default: 0]
    #[arg(long, value_name = "N", env = "TOLLGATE_RECORDS_MAX_ROWS")]
    pub records_max_rows: Option<u64>,
    /// Days to keep revoked keys that were never used; 0 for no limit. Keys with requests are always kept [default: 0]
    #[arg(long, value_name = "DAYS", env = "TOLLGATE_UNUSED_KEYS_KEEP_DAYS")]
    pub unused_keys_keep_days: Option<u32>,
    /// Time between two backups of the SQLite database, such as `6h`; 0 for none [default: 0]
    #[arg(long, value_name = "TIME", env = "TOLLGATE_BACKUP_EVERY")]
    pub backup_every: Option<String>,
    /// Number of backups to keep; the oldest are deleted after a new one was verified [default: 7]
    #[arg(long, value_name = "N", env = "TOLLGATE_BACKUP_KEEP")]
    pub backup_keep: Option<usize>,
    /// Directory of the backups [default: `backups` in the data directory]
    #[arg(long, value_name = "DIR", env = "TOLLGATE_BACKUP_DIR")]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub backup_dir: Option<PathBuf>,
    /// What failures the record of a request survives [default: process]
    #[arg(long, value_name = "WHAT", env = "TOLLGATE_DURABILITY")]
    pub durability: Option<DurabilitySetting>,
    /// Minutes for which the response to a request with an `Idempotency-Key` is kept for retries; 0 to treat
    /// retries as new requests [default: 10]
    #[arg(long, value_name = "MINUTES", env = "TOLLGATE_IDEMPOTENCY_MINUTES")]
    pub idempotency_minutes: Option<u32>,
    /// The settings of the public edge.
    #[command(flatten)]
    pub edge: EdgeSettings,
    /// The settings of the export over OTLP.
    #[command(flatten)]
    pub otlp: OtlpSettings,
    /// The settings of `/v1/responses`.
    #[command(flatten)]
    pub responses: ResponsesSettings,
    /// The settings of webhooks.
    #[command(flatten)]
    pub webhook: WebhookSettings,
}

/// The registration mode, as written in a setting.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationMode {
    /// All callers that can connect to the admin plane
    Open,
    /// Callers with an invite code from an operator
    Invite,
    /// Only operators
    Closed,
}

impl Settings {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has an unknown key or an invalid value.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("reading `{}`", path.display()))?;
        toml::from_str(&text).with_context(|| format!("reading `{}`", path.display()))
    }

    /// Returns these settings, with missing ones taken from `lower`.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        merge! { self or lower:
            data_dir, store, store_password_file, seal_key_file, seal_key_env, seal_key_command,
            node_name, store_patience_seconds, listen, admin_listen, metrics_listen,
            metrics_accounts, access_log, public_url, tls_cert, tls_key, admin_client_ca,
            allow_plaintext, cors_origins, registration, registrations_per_hour, trial_daily_usd,
            workers, upstream_proxy_from_environment, no_simulator, max_body_bytes,
            body_memory_bytes, drain_seconds, drain_delay_seconds, client_idle_seconds,
            max_connections, max_connections_per_address, records_keep_days, records_max_rows,
            unused_keys_keep_days, backup_every, backup_keep, backup_dir, durability,
            idempotency_minutes, edge, otlp, responses, webhook,
        }
    }
}
