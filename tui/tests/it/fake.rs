//! A gateway's admin plane that keeps all it knows in memory and can be stopped and started again.
//! A file per kind of service.

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
/// What every key begins with that is made here.
pub(crate) const SECRET: &str = "sk-tg-0011aabb-";

/// The gateway's disk: it outlives a [`Gateway`].
#[derive(Clone)]
pub(crate) struct Disk {
    records: Arc<watch::Sender<Vec<RequestRecord>>>,
    state: Arc<Mutex<State>>,
}

/// What is on it besides records.
pub(crate) struct State {
    /// Who makes every call, then all others.
    pub(crate) accounts: Vec<Account>,
    /// Names with their passwords.
    pub(crate) passwords: Vec<(String, String)>,
    /// All keys, newest first.
    pub(crate) keys: Vec<Key>,
    /// All upstreams.
    pub(crate) upstreams: Vec<Upstream>,
    /// How often somebody signed out.
    pub(crate) signed_out: usize,
}

/// What a gateway can do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContractVersion {
    /// All that the contract has.
    Current,
    /// All but showing traffic.
    WithoutTraffic,
}

/// A gateway that runs until it is stopped or dropped.
pub(crate) struct Gateway {
    runtime: Option<Runtime>,
    address: SocketAddr,
}

// === impl Disk ===

impl Disk {
    pub(crate) fn new() -> Self {
        Self::of(Role::Member)
    }

    /// Returns the disk of a gateway where `ada` has that role.
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

    /// Records completed requests for `models`, all at once.
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

    /// Forgets all records, as a new data directory would.
    pub(crate) fn wipe(&self) {
        self.records.send_modify(Vec::clear);
    }

    /// Looks at the state.
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
    /// Starts on any free port.
    pub(crate) fn start(disk: &Disk) -> Self {
        Self::start_at(disk, ([127, 0, 0, 1], 0).into(), ContractVersion::Current)
    }

    /// Starts on that port.
    pub(crate) fn start_at(disk: &Disk, address: SocketAddr, version: ContractVersion) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let disk = disk.clone();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let router = Server::builder()
                .add_service(AccountServiceServer::new(disk.clone()))
                .add_service(AuditServiceServer::new(disk.clone()))
                .add_service(KeyServiceServer::new(disk.clone()))
                .add_service(ModelServiceServer::new(disk.clone()))
                .add_service(PlanServiceServer::new(disk.clone()))
                .add_service(UpstreamServiceServer::new(disk.clone()))
                .add_service(UsageServiceServer::new(disk.clone()));
            let traffic =
                (version == ContractVersion::Current).then(|| TrafficServiceServer::new(disk));
            let router = router.add_optional_service(traffic);
            router.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { runtime: Some(runtime), address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops at once, cutting every connection, and waits until it has; returns where it was.
    pub(crate) fn stop(mut self) -> SocketAddr {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
        self.address
    }
}

impl Drop for Gateway {
    /// Stops without waiting, which a test that is itself waited for must not.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn authorize<T>(request: &Request<T>) -> Result<(), Status> {
    match request.metadata().get("authorization") {
        Some(value) if value == format!("Bearer {TOKEN}").as_str() => Ok(()),
        _ => Err(Status::unauthenticated("who are you")),
    }
}
