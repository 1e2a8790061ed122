//! Operations on the gateway's state: accounts, keys, plans, models, upstreams, usage.
//!
//! Speaks domain types and knows no wire format, so a gRPC method, a command or a test calls it alike.
//! Every operation takes the [`Caller`] and decides itself what that account may do. Changes happen
//! one at a time: checked, written to the store with an entry of the audit log, then shown in the
//! [`Directory`]. Start with [`Control`]; each file adds the operations of one noun to it.

pub mod access;
pub mod accounts;
pub mod audit;
pub mod bootstrap;
pub mod catalogue;
mod change;
pub mod diagnose;
pub mod error;
pub mod export;
mod filter;
pub mod health;
pub mod keys;
pub mod ledger;
pub mod limit_use;
pub mod maintenance;
pub mod models;
mod occurrences;
mod password_change;
pub mod passwords;
pub mod plans;
mod registration;
mod rotation;
pub mod sessions;
mod sign_in;
mod signups;
mod standing;
pub mod tail;
#[cfg(test)]
pub(crate) mod tests;
mod throttle;
mod token;
pub mod traffic;
pub mod upstreams;
pub mod usage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Entropy};
use crate::directory::Directory;
use crate::ledger::Ledger;
use crate::limits::Limiter;
use crate::secrets::Credentials;
use crate::tls::TlsFiles;
use crate::upstream::UpstreamClients;
use domain::money::Nanos;
use store::Store;

pub use access::Caller;
pub use error::ControlError;

use passwords::Passwords;
use sign_in::SignInGuard;
use signups::SignUps;
use traffic::{LastCount, Traffic};

/// The most money that an account may hold or owe: far from where sums of nanodollars overflow.
const MAX_BALANCE: Nanos = Nanos(1_000_000_000 * 1_000_000_000);

/// All operations. One for the whole gateway.
pub struct Control {
    store: Arc<dyn Store>,
    directory: Arc<Directory>,
    ledger: Arc<Ledger>,
    credentials: Arc<Credentials>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    registration: Registration,
    sign_ups: SignUps,
    sign_ins: SignInGuard,
    trial_daily: Nanos,
    operator_token: [u8; 32],
    tasks: TaskTracker,
    passwords: Passwords,
    data_dir: PathBuf,
    tls: Option<TlsFiles>,
    api: ApiAddress,
    upstream_clients: Arc<UpstreamClients>,
    limiter: Arc<Limiter>,
    traffic: Arc<Traffic>,
    last_count: LastCount,
    writing: Mutex<()>,
}

/// What [`Control`] is made of.
pub struct Parts {
    /// What outlives the process.
    pub store: Arc<dyn Store>,
    /// What requests are served from.
    pub directory: Arc<Directory>,
    /// The owner of money.
    pub ledger: Arc<Ledger>,
    /// The upstreams' credentials, with the seal for new ones.
    pub credentials: Arc<Credentials>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// Who may register.
    pub registration: Registration,
    /// How many accounts one client address may register within an hour; zero means no limit.
    pub registrations_per_hour: u32,
    /// The most trial credit that is given on one day.
    pub trial_daily: Nanos,
    /// SHA-256 of the operator token, as [`bootstrap::prepare`] returns it.
    pub operator_token: [u8; 32],
    /// Where changes run, so that a shutdown waits for them.
    pub tasks: TaskTracker,
    /// Where the database and the secrets are.
    pub data_dir: PathBuf,
    /// Our own certificate.
    pub tls: Option<TlsFiles>,
    /// Where the API is.
    pub api: ApiAddress,
    /// The upstreams' clients.
    pub upstream_clients: Arc<UpstreamClients>,
    /// What is limited.
    pub limiter: Arc<Limiter>,
    /// The last hour, which the recorder tells of what has ended.
    pub traffic: Arc<Traffic>,
}

/// Where clients reach the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAddress {
    /// The base URL that the operator has set.
    pub public_url: Option<String>,
    /// The address that it listens on; with TLS if the gateway has a certificate.
    pub listen: SocketAddr,
}

/// Who may register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Everybody.
    Open,
    /// Who has an invite code.
    Invite,
    /// Nobody; operators make accounts.
    Closed,
}

impl Control {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        Self {
            passwords: Passwords::new(parts.entropy.clone()),
            store: parts.store,
            directory: parts.directory,
            ledger: parts.ledger,
            credentials: parts.credentials,
            clock: parts.clock,
            entropy: parts.entropy,
            registration: parts.registration,
            sign_ups: SignUps::new(parts.registrations_per_hour),
            sign_ins: SignInGuard::default(),
            trial_daily: parts.trial_daily,
            operator_token: parts.operator_token,
            tasks: parts.tasks,
            data_dir: parts.data_dir,
            tls: parts.tls,
            api: parts.api,
            upstream_clients: parts.upstream_clients,
            limiter: parts.limiter,
            traffic: parts.traffic,
            last_count: LastCount::default(),
            writing: Mutex::new(()),
        }
    }

    /// Returns where clients reach the API, and whether it speaks TLS there.
    pub fn api_address(&self) -> (&ApiAddress, bool) {
        (&self.api, self.tls.is_some())
    }
}
