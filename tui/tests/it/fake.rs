//! An in-memory implementation of the gateway's admin API that can be stopped and restarted. One
//! file per group of services.

mod accounts;
mod catalogue;
mod keys;
mod traffic;
mod usage;

use proto::v1::account_service_server::AccountServiceServer;
use proto::v1::audit_service_server::AuditServiceServer;
use proto::v1::key_service_server::KeyServiceServer;
use proto::v1::model_service_server::ModelServiceServer;
use proto::v1::plan_service_server::PlanServiceServer;
use proto::v1::traffic_service_server::TrafficServiceServer;
use proto::v1::upstream_service_server::UpstreamServiceServer;
use proto::v1::usage_service_server::UsageServiceServer;
use proto::v1::{Account, Key, RequestRecord, RequestStatus, Role, TokenCounts, Upstream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Status};

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const TOKEN: &str = "token-of-ada";
pub(crate) const PASSWORD: &str = "correct horse";
/// The prefix of every created key.
pub(crate) const SECRET: &str = "sk-tg-0011aabb-";

/// The state of a gateway, which outlives a [`Gateway`].
#[derive(Clone)]
pub(crate) struct Backend {
    records: Arc<watch::Sender<Vec<RequestRecord>>>,
    state: Arc<Mutex<State>>,
}

/// The state apart from request records.
pub(crate) struct State {
    /// All accounts; the first one makes every call.
    pub(crate) accounts: Vec<Account>,
    /// Account names and passwords.
    pub(crate) passwords: Vec<(String, String)>,
    /// All keys, newest first.
    pub(crate) keys: Vec<Key>,
    /// All upstreams.
    pub(crate) upstreams: Vec<Upstream>,
    /// The number of sign-outs.
    pub(crate) signed_out: usize,
}

/// The supported part of the admin API.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContractVersion {
    /// All services.
    Current,
    /// All services except traffic.
    WithoutTraffic,
}

/// A gateway that runs until it is stopped or dropped.
pub(crate) struct Gateway {
    runtime: Option<Runtime>,
    address: SocketAddr,
}

// === impl Backend ===

impl Backend {
    pub(crate) fn new() -> Self {
        Self::of(Role::Member)
    }

    /// Returns the state of a gateway on which `ada` has `role`.
    pub(crate) fn of(role: Role) -> Self {
        let account = |name: &str, role: Role| Account {
            id: format!("id-of-{name}"),
            name: name.to_owned(),
            role: role.into(),
            plan: "free".to_owned(),
            balance_usd: "4.999900".to_owned(),
            ..Account::default()
        };
        let state = State {
            accounts: vec![account("ada", role), account("bob", Role::Member)],
            passwords: vec![("ada".to_owned(), PASSWORD.to_owned())],
            keys: Vec::new(),
            upstreams: vec![Upstream { name: "local".to_owned(), ..Upstream::default() }],
            signed_out: 0,
        };
        let records = Arc::new(watch::Sender::new(Vec::new()));
        Self { records, state: Arc::new(Mutex::new(state)) }
    }

    /// Records a completed request for `model`.
    pub(crate) fn record(&self, model: &str) {
        self.record_all([model.to_owned()]);
    }

    /// Records one completed request for each of `models`, in one update.
    pub(crate) fn record_all(&self, models: impl IntoIterator<Item = String>) {
        self.records.send_modify(|records| {
            for model in models {
                records.push(RequestRecord {
                    id: records.len().to_string(),
                    model: Some(model),
                    status: RequestStatus::Completed.into(),
                    tokens: Some(TokenCounts { input: Some(12), ..TokenCounts::default() }),
                    cost_usd: Some("0.000012".to_owned()),
                    duration_ms: Some(34.0),
                    started_at: Some(prost_types::Timestamp { seconds: 1_795_000_000, nanos: 0 }),
                    ..RequestRecord::default()
                });
            }
        });
    }

    /// Deletes all records, like a new data directory.
    pub(crate) fn wipe(&self) {
        self.records.send_modify(Vec::clear);
    }

    /// Reads the state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap())
    }

    /// Changes the state.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }
}

// === impl Gateway ===

impl Gateway {
    /// Starts on a free port.
    pub(crate) fn start(backend: &Backend) -> Self {
        Self::start_at(backend, ([127, 0, 0, 1], 0).into(), ContractVersion::Current)
    }

    /// Starts on `address`.
    pub(crate) fn start_at(
        backend: &Backend,
        address: SocketAddr,
        version: ContractVersion,
    ) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let backend = backend.clone();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let router = Server::builder()
                .add_service(AccountServiceServer::new(backend.clone()))
                .add_service(AuditServiceServer::new(backend.clone()))
                .add_service(KeyServiceServer::new(backend.clone()))
                .add_service(ModelServiceServer::new(backend.clone()))
                .add_service(PlanServiceServer::new(backend.clone()))
                .add_service(UpstreamServiceServer::new(backend.clone()))
                .add_service(UsageServiceServer::new(backend.clone()));
            let traffic =
                (version == ContractVersion::Current).then(|| TrafficServiceServer::new(backend));
            let router = router.add_optional_service(traffic);
            router.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { runtime: Some(runtime), address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops immediately, closes all connections and returns the address. Waits for the shutdown.
    pub(crate) fn stop(mut self) -> SocketAddr {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
        self.address
    }
}

impl Drop for Gateway {
    /// Stops without waiting: blocking is not allowed in an async test.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn authorize<T>(request: &Request<T>) -> Result<(), Status> {
    match request.metadata().get("authorization") {
        Some(value) if value == format!("Bearer {TOKEN}").as_str() => Ok(()),
        _ => Err(Status::unauthenticated("invalid token")),
    }
}
