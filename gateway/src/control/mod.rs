//! The control plane: operations on accounts, keys, plans, models, upstreams and usage.
//!
//! Speaks domain types and must not know a wire format, so that a gRPC method, a command and a test
//! call the same functions. Every operation takes the [`Caller`] and authorizes it. Invariant:
//! changes are serialized. Each is validated, written to the store together with an audit entry,
//! then published in the [`Directory`]. Start with [`Control`]; each file adds the operations of
//! one resource to it.

pub mod access;
mod account_lifecycle;
mod account_status;
pub mod accounts;
pub mod audit;
pub mod bootstrap;
mod captures;
pub mod catalogue;
mod change;
pub mod diagnose;
pub mod error;
pub mod export;
mod filter;
mod follow;
pub mod health;
mod identity;
pub mod invites;
pub mod key_update;
pub mod keys;
pub mod ledger;
pub mod limit_use;
pub mod maintenance;
pub mod models;
pub mod nodes;
pub mod operator_token;
mod password_change;
pub mod password_reset;
pub mod passwords;
pub mod people;
pub mod plans;
mod registration;
mod registration_limiter;
pub mod reload;
mod report_aggregator;
pub mod requests_in_flight;
mod roles;
mod rotation;
pub mod routes;
pub mod seal_rotation;
pub mod sessions;
mod sign_in;
pub mod tail;
#[cfg(test)]
pub(crate) mod tests;
mod throttle;
mod token;
pub mod traffic;
mod upstream_secrets;
mod upstream_settings;
pub mod upstreams;
pub mod usage;
mod webhooks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::backups::BackupStatus;
use crate::cancellation::Cancellations;
use crate::capture::Captures;
use crate::clock::{Clock, Entropy};
use crate::directory::Directory;
use crate::ledger::Ledger;
use crate::limits::Limiter;
use crate::metrics::Scrapes;
use crate::otlp::Exporter;
use crate::secrets::{Credentials, SealKeySource};
use crate::tls::ServerTls;
use crate::upstream::UpstreamClients;
use crate::webhooks::Webhooks;
use domain::money::Nanos;
use store::{Allocations, Schema, Store, TrafficReports};

pub use access::Caller;
pub use error::ControlError;
pub use identity::Identity;

use passwords::Passwords;
use registration_limiter::RegistrationLimiter;
use reload::SettingsReader;
use sign_in::SignInTracker;
use traffic::{InFlightCache, Traffic};

/// The highest absolute balance of an account; sums of nanodollars stay far from an overflow.
const MAX_BALANCE: Nanos = Nanos(1_000_000_000 * 1_000_000_000);

/// The control plane; one instance per gateway.
pub struct Control {
    store: Arc<dyn Store>,
    schema: Schema,
    backups: Option<Arc<BackupStatus>>,
    scrapes: Option<Arc<Scrapes>>,
    telemetry: Option<Arc<Exporter>>,
    webhooks: Option<Arc<Webhooks>>,
    captures: Arc<Captures>,
    allocations: Option<Arc<dyn Allocations>>,
    directory: Arc<Directory>,
    ledger: Arc<Ledger>,
    cancellations: Arc<Cancellations>,
    credentials: Arc<Credentials>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    registration: ArcSwap<Registration>,
    registration_limiter: RegistrationLimiter,
    sign_ins: SignInTracker,
    trial_daily: ArcSwap<Nanos>,
    operator_token: [u8; 32],
    tasks: TaskTracker,
    passwords: Passwords,
    data_dir: PathBuf,
    seal_key: SealKeySource,
    tls: Option<Arc<ServerTls>>,
    read_settings: Option<SettingsReader>,
    api: ApiAddress,
    upstream_clients: Arc<UpstreamClients>,
    limiter: Arc<Limiter>,
    traffic: Arc<Traffic>,
    traffic_reports: Option<Arc<dyn TrafficReports>>,
    in_flight_cache: InFlightCache,
    write_lock: Mutex<()>,
}

/// The dependencies and settings of [`Control`].
pub struct Parts {
    /// The persistent store.
    pub store: Arc<dyn Store>,
    /// The schema of the store.
    pub schema: Schema,
    /// The state of scheduled backups; `None` without them.
    pub backups: Option<Arc<BackupStatus>>,
    /// The scrapes of the metrics; `None` if they are not served.
    pub scrapes: Option<Arc<Scrapes>>,
    /// The export to a collector; `None` if nothing is exported.
    pub telemetry: Option<Arc<Exporter>>,
    /// The endpoints of webhooks; `None` for none.
    pub webhooks: Option<Arc<Webhooks>>,
    /// The captured requests.
    pub captures: Arc<Captures>,
    /// The shared pools; `None` if only this gateway uses the store.
    pub allocations: Option<Arc<dyn Allocations>>,
    /// The in-memory accounts, keys and catalogue that requests are served from.
    pub directory: Arc<Directory>,
    /// The balances and request records.
    pub ledger: Arc<Ledger>,
    /// The requests that are to end now.
    pub cancellations: Arc<Cancellations>,
    /// The upstreams' credentials; seals new ones.
    pub credentials: Arc<Credentials>,
    /// Wall and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The registration mode.
    pub registration: Registration,
    /// The registrations per hour from one client address; zero means no limit.
    pub registrations_per_hour: u32,
    /// The maximum trial credit per day over all new accounts.
    pub trial_daily: Nanos,
    /// SHA-256 of the operator token in the data directory, as [`bootstrap::prepare`] returns it.
    pub operator_token: [u8; 32],
    /// The tracker of change tasks; a shutdown waits for it.
    pub tasks: TaskTracker,
    /// The directory of the database and the secrets.
    pub data_dir: PathBuf,
    /// Where the key of stored secrets comes from.
    pub seal_key: SealKeySource,
    /// The TLS of the gateway's listeners.
    pub tls: Option<Arc<ServerTls>>,
    /// Reads the settings for a reload; `None` if they cannot be read again.
    pub read_settings: Option<SettingsReader>,
    /// The address of the API.
    pub api: ApiAddress,
    /// The HTTP clients of the upstreams.
    pub upstream_clients: Arc<UpstreamClients>,
    /// The usage counters behind rate limits.
    pub limiter: Arc<Limiter>,
    /// The traffic of the last hour, fed by the recorder.
    pub traffic: Arc<Traffic>,
    /// The reports of the gateways' traffic; `None` if only this gateway uses the store.
    pub traffic_reports: Option<Arc<dyn TrafficReports>>,
}

/// The address at which clients reach the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAddress {
    /// The configured base URL.
    pub public_url: Option<String>,
    /// The listen address; uses TLS if the gateway has a certificate.
    pub listen: SocketAddr,
}

/// The registration mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Registration needs no invite.
    Open,
    /// Registration needs an invite code.
    Invite,
    /// Only operators create accounts.
    Closed,
}

impl Control {
    /// Creates the control plane; called once, at start.
    pub fn new(parts: Parts) -> Self {
        Self {
            passwords: Passwords::new(parts.entropy.clone()),
            store: parts.store,
            schema: parts.schema,
            backups: parts.backups,
            scrapes: parts.scrapes,
            telemetry: parts.telemetry,
            webhooks: parts.webhooks,
            captures: parts.captures,
            allocations: parts.allocations,
            directory: parts.directory,
            ledger: parts.ledger,
            cancellations: parts.cancellations,
            credentials: parts.credentials,
            clock: parts.clock,
            entropy: parts.entropy,
            registration: ArcSwap::from_pointee(parts.registration),
            registration_limiter: RegistrationLimiter::new(parts.registrations_per_hour),
            sign_ins: SignInTracker::default(),
            trial_daily: ArcSwap::from_pointee(parts.trial_daily),
            operator_token: parts.operator_token,
            tasks: parts.tasks,
            data_dir: parts.data_dir,
            seal_key: parts.seal_key,
            tls: parts.tls,
            read_settings: parts.read_settings,
            api: parts.api,
            upstream_clients: parts.upstream_clients,
            limiter: parts.limiter,
            traffic: parts.traffic,
            traffic_reports: parts.traffic_reports,
            in_flight_cache: InFlightCache::default(),
            write_lock: Mutex::new(()),
        }
    }

    /// Returns the address of the API, and whether it uses TLS.
    pub fn api_address(&self) -> (&ApiAddress, bool) {
        (&self.api, self.tls.is_some())
    }
}
