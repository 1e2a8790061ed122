//! A gateway in the process of a fuzz target, on sockets of the loopback address.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gateway::app::{self, Listeners, Seams};
use gateway::clock::Clock;
use gateway::config::Settings;
use gateway::workers::WorkerRuntime;
use jiff::Timestamp;
use proto::client::Connection;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The largest body of a request, small enough for inputs to exceed it.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// A gateway on the current runtime, with the simulator as its upstream.
pub struct Gateway {
    /// The address of its API.
    pub http: SocketAddr,
    /// A connection to its admin plane that has all rights.
    pub operator: Connection,
    admin: String,
    _dir: TempDir,
    _running: JoinHandle<()>,
}

/// A clock that follows the timers of the runtime, so that a pause of one is a pause of the other.
struct TimerClock {
    start: Instant,
}

// === impl Gateway ===

impl Gateway {
    /// Starts a gateway without limits and with open registration.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Self {
        let dir = scratch();
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let settings = Settings {
            data_dir: Some(dir.path().join("data")),
            listen: Some(any),
            admin_listen: Some(any.into()),
            registrations_per_hour: Some(0),
            workers: Some(1),
            max_body_bytes: Some(MAX_BODY_BYTES),
            ..Settings::default()
        };
        let config = settings.resolve().expect("the settings are valid");
        let admin = config.admin_listen.clone();
        let listeners = Listeners::bind(config.listen, admin).expect("the ports are free");
        let http = listeners.http.local_addr().expect("it is bound");
        let admin = listeners.admin.address().expect("it is bound").url();
        let seams = Seams {
            clock: Arc::new(TimerClock { start: Instant::now() }),
            worker_runtime: WorkerRuntime::Current,
            ..Seams::default()
        };
        let token_file = config.data_dir.join("operator.token");
        let running = tokio::spawn(async move {
            let ended = app::run(&config, listeners, seams, CancellationToken::new()).await;
            panic!("the gateway ended: {ended:?}");
        });
        // The admin plane accepts connections once the token is written.
        let anonymous = proto::client::connect(&admin, None).await.expect("it serves");
        let mut accounts = AccountServiceClient::new(anonymous);
        accounts.describe_gateway(v1::DescribeGatewayRequest {}).await.expect("it serves");
        let token = std::fs::read_to_string(token_file).expect("it was written at the start");
        let token = token.trim().to_owned().into();
        let operator = proto::client::connect(&admin, Some(&token)).await.expect("it serves");
        let gateway = Self { http, operator, admin, _dir: dir, _running: running };
        let plan = v1::Plan { name: "free".to_owned(), ..v1::Plan::default() };
        let mut plans = PlanServiceClient::new(gateway.operator.clone());
        plans.put_plan(v1::PutPlanRequest { plan: Some(plan) }).await.expect("it is valid");
        gateway
    }

    /// Registers an account with money, and returns a key of it.
    ///
    /// # Panics
    /// If the gateway refuses.
    pub async fn key(&self, account: &str) -> String {
        let (name, password) = (account.to_owned(), "correct horse battery".to_owned());
        let anonymous = proto::client::connect(&self.admin, None).await.expect("it serves");
        let mut accounts = AccountServiceClient::new(anonymous);
        let invite_code = String::new();
        let request =
            v1::RegisterRequest { name: name.clone(), password: password.clone(), invite_code };
        accounts.register(request).await.expect("registration is open");
        let sign_in = v1::SignInRequest { name: name.clone(), password };
        let session = accounts.sign_in(sign_in).await.expect("the password is right").into_inner();
        let credit = v1::CreditAccountRequest {
            account: name,
            amount_usd: "1000000".to_owned(),
            reason: "fuzzing".to_owned(),
        };
        let mut operator = AccountServiceClient::new(self.operator.clone());
        operator.credit_account(credit).await.expect("the account exists");
        let token = session.token.into();
        let member = proto::client::connect(&self.admin, Some(&token)).await.expect("it serves");
        let request = v1::CreateKeyRequest { label: "fuzz".to_owned(), ..Default::default() };
        let made = KeyServiceClient::new(member).create_key(request).await;
        made.expect("the account is active").into_inner().secret
    }
}

impl Clock for TimerClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Returns a directory that is removed with the value, in memory where there is such a file system.
///
/// # Panics
/// If there is no room for it.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.expect("there is room")
}
