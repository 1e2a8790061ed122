//! The configuration: a TOML file, environment variables and flags, in order of increasing precedence.
//!
//! Every key of the file has a flag and an environment variable of the same name. [`Settings`] holds the values of
//! one source, and [`Config`] the validated result.

mod address;
mod backup;
mod edge;
mod environment_proxies;
mod live;
mod metrics;
mod migrate;
mod otlp;
mod responses;
mod restore;
mod source;
mod store;
mod webhook;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use etcetera::BaseStrategy;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::backups::BackupSettings;
use crate::connections::ConnectionLimits;
use crate::control::Registration;
use crate::data_dir::BACKUPS;
use crate::http::CorsOrigins;
use crate::metrics::MAX_TOP;
use crate::retention::RecordRetention;
use crate::secrets::SealKeySource;
use crate::telemetry::AccessLogSetting;
use crate::tls::TlsFiles;
use crate::upstream::EnvironmentProxies;
use crate::webhooks::WebhookConfig;
use crate::workers::default_workers;
pub use address::{AdminAddress, ListenError, listen_address};
use domain::durability::Durability;
use domain::money::Nanos;
use domain::node::NodeName;
pub use edge::{EdgeConfig, EdgeSettings};
pub use live::LiveSettings;
pub use metrics::MetricsAddress;
pub use migrate::{MigrateArgs, Migration};
pub use otlp::{OtlpConfig, OtlpSettings, ProtocolSetting, SignalSetting};
pub use responses::{KeepAliveSetting, ReasoningSetting, ResponsesConfig, ResponsesSettings};
pub use restore::RestoreArgs;
pub use source::{RereadSettings, SettingsInUse, SettingsSource};
pub use store::{DurabilitySetting, StoreConfig};
pub use webhook::WebhookSettings;

/// The default listen address of the API.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
/// The default listen address of the admin plane.
pub const DEFAULT_ADMIN_LISTEN: &str = "127.0.0.1:8081";
const DEFAULT_MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
const DEFAULT_BODY_MEMORY_BYTES: usize = 256 * 1024 * 1024;
/// The smallest accepted `max_body_bytes`. A chat request with a question and a tool is smaller.
const MIN_MAX_BODY_BYTES: usize = 1024;
/// The upper limit of all settings in seconds: a day.
const MAX_WAIT_SECONDS: u64 = 24 * 60 * 60;
/// The largest accepted number of workers.
const MAX_WORKERS: usize = 1_024;
const DEFAULT_STORE_PATIENCE_SECONDS: u64 = 60;
/// The smallest accepted `store_patience_seconds`: two heartbeats.
const MIN_STORE_PATIENCE_SECONDS: u64 = 2;
const DEFAULT_DRAIN_SECONDS: u64 = 30;
const DEFAULT_CLIENT_IDLE_SECONDS: u64 = 120;
const DEFAULT_MAX_CONNECTIONS: usize = 8_192;
const DEFAULT_MAX_CONNECTIONS_PER_ADDRESS: usize = 1_024;
const DEFAULT_IDEMPOTENCY_MINUTES: u32 = 10;
const DEFAULT_REGISTRATIONS_PER_HOUR: u32 = 10;
const DEFAULT_TRIAL_DAILY_USD: u32 = 100;
const NANOS_PER_DOLLAR: i64 = 1_000_000_000;
const DAY: Duration = Duration::from_hours(24);

/// The settings of one source. `None` means that the source does not contain the setting.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Directory of the database, the operator token and the key that seals stored credentials
    /// [default: the XDG data home, `tollgate` in it]
    #[arg(long, value_name = "DIR", env = "TOLLGATE_DATA_DIR")]
    #[serde(serialize_with = "source::serialize_path")]
    pub data_dir: Option<PathBuf>,
    /// Database: `sqlite` in the data directory, or the URL of a PostgreSQL database,
    /// `postgres://USER@HOST/DATABASE`, which several gateways may share [default: sqlite]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true, value_parser = store::secret_parser())]
    #[serde(deserialize_with = "store::deserialize_secret", skip_serializing)]
    pub store: Option<SecretString>,
    /// File with the password of the PostgreSQL database, unless the URL has one
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_PASSWORD_FILE")]
    #[serde(serialize_with = "source::serialize_path")]
    pub store_password_file: Option<PathBuf>,
    /// File with the key that encrypts stored secrets: 64 hexadecimal digits [default: `seal.key` in the data directory,
    /// which the first start creates]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_SEAL_KEY_FILE")]
    #[serde(serialize_with = "source::serialize_path")]
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
    #[serde(deserialize_with = "address::deserialize_listen")]
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
    #[serde(serialize_with = "source::serialize_path")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as a PEM file
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY")]
    #[serde(serialize_with = "source::serialize_path")]
    pub tls_key: Option<PathBuf>,
    /// Authority whose certificates clients of the admin plane must present, as a PEM file; needs a certificate of
    /// the gateway
    #[arg(long, value_name = "FILE", env = "TOLLGATE_ADMIN_CLIENT_CA")]
    #[serde(serialize_with = "source::serialize_path")]
    pub admin_client_ca: Option<PathBuf>,
    /// Listen without TLS on addresses that other hosts can reach, where keys and prompts can be read on the way: on
    /// a trusted network, or behind a proxy that terminates TLS
    #[arg(long, env = "TOLLGATE_ALLOW_PLAINTEXT", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allow_plaintext: Option<bool>,
    /// Origins whose web pages may use the API (CORS), such as `https://app.example`, or `*` for all; repeatable
    /// [default: none]
    #[arg(long, value_name = "ORIGIN", env = "TOLLGATE_CORS_ORIGINS", value_delimiter = ',')]
    #[serde(deserialize_with = "address::deserialize_origins")]
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
    #[serde(serialize_with = "source::serialize_path")]
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

/// The validated configuration of a gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory of the database and the secrets.
    pub data_dir: PathBuf,
    /// The database.
    pub store: StoreConfig,
    /// Where the key of stored secrets comes from.
    pub seal_key: SealKeySource,
    /// The name of this gateway among those of its database; `None` for the host name.
    pub node_name: Option<NodeName>,
    /// The time for which requests are served while the database of several gateways cannot be reached.
    pub store_patience: Duration,
    /// The listen address of the API.
    pub listen: SocketAddr,
    /// The listen address of the admin plane.
    pub admin_listen: AdminAddress,
    /// The listen address of the metrics; `None` if they are not served.
    pub metrics_listen: Option<SocketAddr>,
    /// The number of accounts, and of keys, that have their own metrics.
    pub metrics_accounts: u32,
    /// Which requests are logged.
    pub access_log: AccessLogSetting,
    /// The base URL of the API for clients, if it differs from the listen address.
    pub public_url: Option<String>,
    /// The certificate of both listeners, and its key.
    pub tls: Option<TlsFiles>,
    /// The authority whose certificates clients of the admin plane must present.
    pub admin_client_ca: Option<PathBuf>,
    /// The origins whose pages may use the API; `None` turns CORS off.
    pub cors: Option<CorsOrigins>,
    /// The registration mode.
    pub registration: Registration,
    /// The maximum number of registrations per client address and hour; zero means no limit.
    pub registrations_per_hour: u32,
    /// The maximum trial credit per day over all accounts.
    pub trial_daily: Nanos,
    /// The number of threads that serve API connections.
    pub workers: NonZeroUsize,
    /// The proxies of the environment, for upstreams that make no choice; `None` if these are connected to directly.
    pub upstream_proxies: Option<EnvironmentProxies>,
    /// Whether the first start adds the simulator to the catalogue.
    pub simulator: bool,
    /// The maximum size of a request body, in bytes.
    pub max_body_bytes: usize,
    /// The memory for all request bodies together, in bytes; at least `max_body_bytes`.
    pub body_memory_bytes: usize,
    /// The time that a shutdown waits for requests in progress.
    pub drain: Duration,
    /// The time before `drain` in which the gateway reports not ready and still accepts connections.
    pub drain_delay: Duration,
    /// The time after which a client that does not read its response is disconnected; `None` for no limit.
    pub client_idle: Option<Duration>,
    /// The limits on API connections. The limit on file descriptors applies as well.
    pub connections: ConnectionLimits,
    /// The retention of request records.
    pub records: RecordRetention,
    /// How long revoked keys are kept that were never used; `None` for no limit.
    pub unused_keys: Option<Duration>,
    /// The scheduled backups; `None` for none.
    pub backups: Option<BackupSettings>,
    /// The durability of request records.
    pub durability: Durability,
    /// The time for which a response is kept under its request's idempotency key; zero disables replay.
    pub idempotency: Duration,
    /// The configuration of the public edge.
    pub edge: EdgeConfig,
    /// The export over OTLP; `None` if nothing is exported.
    pub otlp: Option<OtlpConfig>,
    /// The configuration of `/v1/responses`.
    pub responses: ResponsesConfig,
    /// The configuration of webhooks; `None` for none.
    pub webhooks: Option<WebhookConfig>,
    /// The settings and where they came from; `None` if they cannot be read again.
    pub in_use: Option<Box<SettingsInUse>>,
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
        Self {
            data_dir: self.data_dir.or(lower.data_dir),
            store: self.store.or(lower.store),
            store_password_file: self.store_password_file.or(lower.store_password_file),
            seal_key_file: self.seal_key_file.or(lower.seal_key_file),
            seal_key_env: self.seal_key_env.or(lower.seal_key_env),
            seal_key_command: self.seal_key_command.or(lower.seal_key_command),
            node_name: self.node_name.or(lower.node_name),
            store_patience_seconds: self.store_patience_seconds.or(lower.store_patience_seconds),
            listen: self.listen.or(lower.listen),
            admin_listen: self.admin_listen.or(lower.admin_listen),
            metrics_listen: self.metrics_listen.or(lower.metrics_listen),
            metrics_accounts: self.metrics_accounts.or(lower.metrics_accounts),
            access_log: self.access_log.or(lower.access_log),
            public_url: self.public_url.or(lower.public_url),
            tls_cert: self.tls_cert.or(lower.tls_cert),
            tls_key: self.tls_key.or(lower.tls_key),
            admin_client_ca: self.admin_client_ca.or(lower.admin_client_ca),
            allow_plaintext: self.allow_plaintext.or(lower.allow_plaintext),
            cors_origins: self.cors_origins.or(lower.cors_origins),
            registration: self.registration.or(lower.registration),
            registrations_per_hour: self.registrations_per_hour.or(lower.registrations_per_hour),
            trial_daily_usd: self.trial_daily_usd.or(lower.trial_daily_usd),
            workers: self.workers.or(lower.workers),
            upstream_proxy_from_environment: self
                .upstream_proxy_from_environment
                .or(lower.upstream_proxy_from_environment),
            no_simulator: self.no_simulator.or(lower.no_simulator),
            max_body_bytes: self.max_body_bytes.or(lower.max_body_bytes),
            body_memory_bytes: self.body_memory_bytes.or(lower.body_memory_bytes),
            drain_seconds: self.drain_seconds.or(lower.drain_seconds),
            drain_delay_seconds: self.drain_delay_seconds.or(lower.drain_delay_seconds),
            client_idle_seconds: self.client_idle_seconds.or(lower.client_idle_seconds),
            max_connections: self.max_connections.or(lower.max_connections),
            max_connections_per_address: self
                .max_connections_per_address
                .or(lower.max_connections_per_address),
            records_keep_days: self.records_keep_days.or(lower.records_keep_days),
            records_max_rows: self.records_max_rows.or(lower.records_max_rows),
            unused_keys_keep_days: self.unused_keys_keep_days.or(lower.unused_keys_keep_days),
            backup_every: self.backup_every.or(lower.backup_every),
            backup_keep: self.backup_keep.or(lower.backup_keep),
            backup_dir: self.backup_dir.or(lower.backup_dir),
            durability: self.durability.or(lower.durability),
            idempotency_minutes: self.idempotency_minutes.or(lower.idempotency_minutes),
            edge: self.edge.or(lower.edge),
            otlp: self.otlp.or(lower.otlp),
            responses: self.responses.or(lower.responses),
            webhook: self.webhook.or(lower.webhook),
        }
    }

    /// Validates the settings and adds the defaults.
    ///
    /// # Errors
    /// A setting or a proxy variable is invalid or out of range, an address is reachable for other hosts without TLS and without
    /// `allow_plaintext`, a certificate is set without its key or a key without its certificate,
    /// or neither a data directory nor a home directory is known.
    pub fn resolve(self) -> Result<Config> {
        let non_empty = |file: Option<PathBuf>| file.filter(|path| !path.as_os_str().is_empty());
        let data_dir = non_empty(self.data_dir).map_or_else(default_data_dir, Ok)?;
        let is_address = "the default is an address";
        let listen = self.listen.unwrap_or_else(|| DEFAULT_LISTEN.parse().expect(is_address));
        let admin_listen =
            self.admin_listen.unwrap_or_else(|| DEFAULT_ADMIN_LISTEN.parse().expect(is_address));
        let public_url = self.public_url.filter(|url| !url.is_empty());
        let public_url = public_url.map(|url| address::public_url(&url)).transpose()?;
        let tls = match (non_empty(self.tls_cert), non_empty(self.tls_key)) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            _ => bail!("set both `tls_cert` and `tls_key`, or neither"),
        };
        let admin_client_ca = non_empty(self.admin_client_ca);
        ensure!(
            admin_client_ca.is_none()
                || tls.is_some() && matches!(admin_listen, AdminAddress::Tcp(_)),
            "`admin_client_ca` needs TLS: set `tls_cert` and `tls_key`, and a port for `admin_listen`, or omit it"
        );
        if tls.is_none() && !self.allow_plaintext.unwrap_or_default() {
            for (name, is_local) in
                [("listen", listen.ip().is_loopback()), ("admin_listen", admin_listen.is_local())]
            {
                ensure!(
                    is_local,
                    "`{name}` is an address that other hosts can reach, and there is no certificate: set `tls_cert` \
                     and `tls_key`, or `allow_plaintext = true` (--allow-plaintext) on a trusted network or behind a \
                     proxy that terminates TLS"
                );
            }
        }
        let metrics_listen = self.metrics_listen.and_then(MetricsAddress::socket);
        if let Some(address) = metrics_listen {
            let allow_plaintext = self.allow_plaintext.unwrap_or_default();
            metrics::check(address, listen, &admin_listen, allow_plaintext)?;
        }
        let metrics_accounts = self.metrics_accounts.unwrap_or_default();
        ensure!(
            metrics_accounts <= MAX_TOP,
            "`metrics_accounts` is {metrics_accounts}; the maximum is {MAX_TOP}"
        );
        let registration = match self.registration {
            Some(RegistrationMode::Open) => Registration::Open,
            Some(RegistrationMode::Closed) => Registration::Closed,
            None if admin_listen.is_local() => Registration::Open,
            Some(RegistrationMode::Invite) | None => Registration::Invite,
        };
        let max_body_bytes = self.max_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES);
        let body_memory_bytes =
            self.body_memory_bytes.unwrap_or(DEFAULT_BODY_MEMORY_BYTES.max(max_body_bytes));
        if body_memory_bytes < max_body_bytes {
            bail!(
                "`body_memory_bytes` is {body_memory_bytes}, which is less than one body of `max_body_bytes` = \
                 {max_body_bytes}; raise the first or lower the second"
            );
        }
        ensure!(
            max_body_bytes >= MIN_MAX_BODY_BYTES,
            "`max_body_bytes` is {max_body_bytes}, with which every request would be refused; set at least \
             {MIN_MAX_BODY_BYTES}, or omit it for the default {DEFAULT_MAX_BODY_BYTES}"
        );
        let drain_seconds = self.drain_seconds.unwrap_or(DEFAULT_DRAIN_SECONDS);
        let drain_delay_seconds = self.drain_delay_seconds.unwrap_or_default();
        let client_idle_seconds = self.client_idle_seconds.unwrap_or(DEFAULT_CLIENT_IDLE_SECONDS);
        let store_patience_seconds =
            self.store_patience_seconds.unwrap_or(DEFAULT_STORE_PATIENCE_SECONDS);
        for (name, seconds) in [
            ("drain_seconds", drain_seconds),
            ("drain_delay_seconds", drain_delay_seconds),
            ("client_idle_seconds", client_idle_seconds),
            ("store_patience_seconds", store_patience_seconds),
        ] {
            ensure!(
                seconds <= MAX_WAIT_SECONDS,
                "`{name}` is {seconds}; the maximum is {MAX_WAIT_SECONDS}, which is a day"
            );
        }
        ensure!(
            store_patience_seconds >= MIN_STORE_PATIENCE_SECONDS,
            "`store_patience_seconds` is {store_patience_seconds}; the minimum is {MIN_STORE_PATIENCE_SECONDS}, because \
             the database is asked once a second"
        );
        let workers = self.workers.and_then(NonZeroUsize::new).unwrap_or_else(default_workers);
        ensure!(
            workers.get() <= MAX_WORKERS,
            "`workers` is {workers}; the maximum is {MAX_WORKERS}, and more than the number of cores is of no use"
        );
        let non_empty_text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let seal_key = match (
            non_empty(self.seal_key_file),
            non_empty_text(self.seal_key_env),
            non_empty_text(self.seal_key_command),
        ) {
            (None, None, None) => SealKeySource::DataDir,
            (Some(file), None, None) => SealKeySource::File(file),
            (None, Some(name), None) => SealKeySource::Variable(name),
            (None, None, Some(command)) => SealKeySource::Command(command),
            _ => bail!("set at most one of `seal_key_file`, `seal_key_env` and `seal_key_command`"),
        };
        let node_name = self.node_name.filter(|name| !name.is_empty());
        let password_file = non_empty(self.store_password_file);
        let store = StoreConfig::resolve(self.store.as_ref(), password_file.as_deref())?;
        let backup_dir = non_empty(self.backup_dir).unwrap_or_else(|| data_dir.join(BACKUPS));
        let backups = backup::resolve(self.backup_every.as_deref(), self.backup_keep, backup_dir)?;
        ensure!(
            backups.is_none() || store == StoreConfig::Sqlite,
            "`backup_every` is for SQLite; make backups of a PostgreSQL database with its tools"
        );
        Ok(Config {
            data_dir,
            store,
            seal_key,
            backups,
            node_name: node_name.map(|name| NodeName::parse(&name)).transpose()?,
            store_patience: Duration::from_secs(store_patience_seconds),
            listen,
            admin_listen,
            metrics_listen,
            metrics_accounts,
            access_log: self.access_log.unwrap_or_default(),
            public_url,
            tls,
            admin_client_ca,
            cors: address::cors_origins(&self.cors_origins.unwrap_or_default())?,
            registration,
            registrations_per_hour: self
                .registrations_per_hour
                .unwrap_or(DEFAULT_REGISTRATIONS_PER_HOUR),
            trial_daily: Nanos(
                NANOS_PER_DOLLAR
                    * i64::from(self.trial_daily_usd.unwrap_or(DEFAULT_TRIAL_DAILY_USD)),
            ),
            workers,
            upstream_proxies: self
                .upstream_proxy_from_environment
                .unwrap_or_default()
                .then(environment_proxies::read)
                .transpose()?,
            simulator: !self.no_simulator.unwrap_or_default(),
            max_body_bytes,
            body_memory_bytes,
            drain: Duration::from_secs(drain_seconds),
            drain_delay: Duration::from_secs(drain_delay_seconds),
            client_idle: Some(client_idle_seconds)
                .filter(|&seconds| seconds > 0)
                .map(Duration::from_secs),
            connections: ConnectionLimits {
                total: Some(self.max_connections.unwrap_or(DEFAULT_MAX_CONNECTIONS))
                    .filter(|&limit| limit > 0),
                per_address: Some(
                    self.max_connections_per_address.unwrap_or(DEFAULT_MAX_CONNECTIONS_PER_ADDRESS),
                )
                .filter(|&limit| limit > 0),
            },
            unused_keys: self.unused_keys_keep_days.filter(|&days| days > 0).map(|days| DAY * days),
            records: RecordRetention {
                keep_for: self.records_keep_days.filter(|&days| days > 0).map(|days| DAY * days),
                max_rows: self.records_max_rows.filter(|&rows| rows > 0),
            },
            durability: self.durability.unwrap_or(DurabilitySetting::Process).into(),
            idempotency: Duration::from_mins(u64::from(
                self.idempotency_minutes.unwrap_or(DEFAULT_IDEMPOTENCY_MINUTES),
            )),
            edge: self.edge.resolve()?,
            otlp: self.otlp.resolve()?,
            responses: self.responses.resolve()?,
            webhooks: self.webhook.resolve()?,
            in_use: None,
        })
    }
}

/// Returns the default data directory: `tollgate` in the XDG data home.
///
/// # Errors
/// There is no home directory.
pub fn default_data_dir() -> Result<PathBuf> {
    let base = etcetera::choose_base_strategy()
        .context("no home directory: name a data directory with --data-dir")?;
    Ok(base.data_dir().join("tollgate"))
}

#[cfg(test)]
mod tests;
