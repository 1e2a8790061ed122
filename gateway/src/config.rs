//! The configuration: a TOML file, environment variables and flags, in order of increasing precedence.
//!
//! Every key of the file has a flag and an environment variable of the same name. [`Settings`] holds the values of
//! one source, and [`Config`] the validated result. Each table of the file has a module, with its settings and what they
//! mean.

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
mod settings;
mod source;
mod store;
mod webhook;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use etcetera::BaseStrategy;

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
pub use settings::{RegistrationMode, Settings};
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
const MIN_STORE_PATIENCE: Duration = Duration::from_secs(2);
const DEFAULT_DRAIN_SECONDS: u64 = 30;
const DEFAULT_CLIENT_IDLE_SECONDS: u64 = 120;
const DEFAULT_MAX_CONNECTIONS: usize = 8_192;
const DEFAULT_MAX_CONNECTIONS_PER_ADDRESS: usize = 1_024;
const DEFAULT_IDEMPOTENCY_MINUTES: u32 = 10;
const DEFAULT_REGISTRATIONS_PER_HOUR: u32 = 10;
const DEFAULT_TRIAL_DAILY_USD: u32 = 100;
const NANOS_PER_DOLLAR: i64 = 1_000_000_000;
const DAY: Duration = Duration::from_hours(24);

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
    /// Validates the settings and adds the defaults.
    ///
    /// # Errors
    /// A setting or a proxy variable is invalid or out of range, an address is reachable for other hosts without TLS and without
    /// `allow_plaintext`, a certificate is set without its key or a key without its certificate,
    /// or neither a data directory nor a home directory is known.
    pub fn resolve(self) -> Result<Config> {
        let data_dir = non_empty(self.data_dir).map_or_else(default_data_dir, Ok)?;
        let is_address = "the default is an address";
        let listen = self.listen.unwrap_or_else(|| DEFAULT_LISTEN.parse().expect(is_address));
        let admin_listen =
            self.admin_listen.unwrap_or_else(|| DEFAULT_ADMIN_LISTEN.parse().expect(is_address));
        let public_url = self.public_url.filter(|url| !url.is_empty());
        let public_url = public_url.map(|url| address::public_url(&url)).transpose()?;
        let tls = tls_files(self.tls_cert, self.tls_key)?;
        let admin_client_ca = non_empty(self.admin_client_ca);
        ensure!(
            admin_client_ca.is_none()
                || tls.is_some() && matches!(admin_listen, AdminAddress::Tcp(_)),
            "`admin_client_ca` needs TLS: set `tls_cert` and `tls_key`, and a port for `admin_listen`, or omit it"
        );
        let allow_plaintext = self.allow_plaintext.unwrap_or_default();
        if tls.is_none() && !allow_plaintext {
            ensure_local(listen, &admin_listen)?;
        }
        let metrics_listen = self.metrics_listen.and_then(MetricsAddress::socket);
        if let Some(address) = metrics_listen {
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
        let (max_body_bytes, body_memory_bytes) =
            body_bytes(self.max_body_bytes, self.body_memory_bytes)?;
        let drain = wait("drain_seconds", self.drain_seconds, DEFAULT_DRAIN_SECONDS)?;
        let drain_delay = wait("drain_delay_seconds", self.drain_delay_seconds, 0)?;
        let client_idle =
            wait("client_idle_seconds", self.client_idle_seconds, DEFAULT_CLIENT_IDLE_SECONDS)?;
        let store_patience = store_patience(self.store_patience_seconds)?;
        let workers = self.workers.and_then(NonZeroUsize::new).unwrap_or_else(default_workers);
        ensure!(
            workers.get() <= MAX_WORKERS,
            "`workers` is {workers}; the maximum is {MAX_WORKERS}, and more than the number of cores is of no use"
        );
        let seal_key =
            seal_key_source(self.seal_key_file, self.seal_key_env, self.seal_key_command)?;
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
            store_patience,
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
            drain,
            drain_delay,
            client_idle: Some(client_idle).filter(|limit| !limit.is_zero()),
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

/// Returns a path unless it is empty, as in a variable that is set to nothing.
fn non_empty(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// Returns the certificate and its key, if they are set.
fn tls_files(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>> {
    match (non_empty(certificate), non_empty(key)) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        _ => bail!("set both `tls_cert` and `tls_key`, or neither"),
    }
}

/// Fails if other hosts can reach one of the addresses, which are served without TLS.
fn ensure_local(listen: SocketAddr, admin_listen: &AdminAddress) -> Result<()> {
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
    Ok(())
}

/// Returns the maximum size of a request body and the memory for all of them, in bytes.
fn body_bytes(max_body: Option<usize>, memory: Option<usize>) -> Result<(usize, usize)> {
    let max_body_bytes = max_body.unwrap_or(DEFAULT_MAX_BODY_BYTES);
    let body_memory_bytes = memory.unwrap_or(DEFAULT_BODY_MEMORY_BYTES.max(max_body_bytes));
    ensure!(
        body_memory_bytes >= max_body_bytes,
        "`body_memory_bytes` is {body_memory_bytes}, which is less than one body of `max_body_bytes` = \
         {max_body_bytes}; raise the first or lower the second"
    );
    ensure!(
        max_body_bytes >= MIN_MAX_BODY_BYTES,
        "`max_body_bytes` is {max_body_bytes}, with which every request would be refused; set at least \
         {MIN_MAX_BODY_BYTES}, or omit it for the default {DEFAULT_MAX_BODY_BYTES}"
    );
    Ok((max_body_bytes, body_memory_bytes))
}

/// Returns the time that the setting `name` states in seconds.
fn wait(name: &str, seconds: Option<u64>, default: u64) -> Result<Duration> {
    let seconds = seconds.unwrap_or(default);
    ensure!(
        seconds <= MAX_WAIT_SECONDS,
        "`{name}` is {seconds}; the maximum is {MAX_WAIT_SECONDS}, which is a day"
    );
    Ok(Duration::from_secs(seconds))
}

fn store_patience(seconds: Option<u64>) -> Result<Duration> {
    let patience = wait("store_patience_seconds", seconds, DEFAULT_STORE_PATIENCE_SECONDS)?;
    ensure!(
        patience >= MIN_STORE_PATIENCE,
        "`store_patience_seconds` is {}; the minimum is {}, because the database is asked once a second",
        patience.as_secs(),
        MIN_STORE_PATIENCE.as_secs()
    );
    Ok(patience)
}

/// Returns where the key of stored secrets comes from: one of the settings, or the data directory.
fn seal_key_source(
    file: Option<PathBuf>,
    variable: Option<String>,
    command: Option<String>,
) -> Result<SealKeySource> {
    let non_empty_text = |text: Option<String>| text.filter(|text| !text.is_empty());
    match (non_empty(file), non_empty_text(variable), non_empty_text(command)) {
        (None, None, None) => Ok(SealKeySource::DataDir),
        (Some(file), None, None) => Ok(SealKeySource::File(file)),
        (None, Some(name), None) => Ok(SealKeySource::Variable(name)),
        (None, None, Some(command)) => Ok(SealKeySource::Command(command)),
        _ => bail!("set at most one of `seal_key_file`, `seal_key_env` and `seal_key_command`"),
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
