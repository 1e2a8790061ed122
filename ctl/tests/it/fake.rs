//! A fake gateway with canned answers, which records its calls and their tokens.

mod accounts;
mod api;
mod catalogue;
mod keys;
mod ledger;
mod nodes;
mod operations;
mod people;
mod requests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proto::v1::account_service_server::AccountServiceServer;
use proto::v1::audit_service_server::AuditServiceServer;
use proto::v1::catalogue_service_server::CatalogueServiceServer;
use proto::v1::diagnostics_service_server::DiagnosticsServiceServer;
use proto::v1::key_service_server::KeyServiceServer;
use proto::v1::ledger_service_server::LedgerServiceServer;
use proto::v1::maintenance_service_server::MaintenanceServiceServer;
use proto::v1::model_service_server::ModelServiceServer;
use proto::v1::node_service_server::NodeServiceServer;
use proto::v1::people_service_server::PeopleServiceServer;
use proto::v1::plan_service_server::PlanServiceServer;
use proto::v1::traffic_service_server::TrafficServiceServer;
use proto::v1::upstream_service_server::UpstreamServiceServer;
use proto::v1::usage_service_server::UsageServiceServer;
use proto::v1::*;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::Stream;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::server::Connected;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};

pub(crate) use api::{start_api, start_api_tls};

/// A running fake gateway. It stops with the test's runtime.
#[derive(Clone)]
pub(crate) struct FakeGateway {
    /// The admin address.
    pub(crate) server: String,
    state: Arc<Mutex<State>>,
}

/// A received call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The method name.
    pub(crate) method: &'static str,
    /// The bearer token, if any.
    pub(crate) token: Option<String>,
    /// The message, in its `Debug` format.
    pub(crate) message: String,
}

/// The behaviour of request tails.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum TailBehaviour {
    /// Stays open after the history.
    #[default]
    Open,
    /// Ends after the history.
    End,
    /// Fails after the first record, unless the call has a cursor.
    Break,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// The status with which to refuse a method.
    refusals: BTreeMap<&'static str, (Code, String)>,
    tails: TailBehaviour,
    clock_skew_ms: i64,
    has_problems: bool,
    /// The announced URL of the API; `None` for a gateway of an earlier version.
    public_url: Option<String>,
    truncates_backups: bool,
}

// === impl FakeGateway ===

impl FakeGateway {
    /// Starts a fake gateway on a free port.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        Self::serve(server, Server::builder(), TcpListenerStream::new(listener))
    }

    /// Starts a fake gateway with TLS on a free port.
    pub(crate) async fn start_tls(certificate: &str, key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let identity = Identity::from_pem(certificate, key);
        let tls = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
        Self::serve(server, tls, TcpListenerStream::new(listener))
    }

    /// Starts a fake gateway on a Unix socket.
    pub(crate) fn start_unix(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let server = format!("unix:{}", path.display());
        Self::serve(server, Server::builder(), UnixListenerStream::new(listener))
    }

    #[expect(clippy::disallowed_methods, reason = "the test's runtime ends it")]
    fn serve<S, IO>(server: String, mut builder: Server, incoming: S) -> Self
    where
        S: Stream<Item = std::io::Result<IO>> + Send + 'static,
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let fake = Self { server, state: Arc::default() };
        let router = builder
            .add_service(AccountServiceServer::new(fake.clone()))
            .add_service(AuditServiceServer::new(fake.clone()))
            .add_service(CatalogueServiceServer::new(fake.clone()))
            .add_service(DiagnosticsServiceServer::new(fake.clone()))
            .add_service(KeyServiceServer::new(fake.clone()))
            .add_service(LedgerServiceServer::new(fake.clone()))
            .add_service(MaintenanceServiceServer::new(fake.clone()))
            .add_service(ModelServiceServer::new(fake.clone()))
            .add_service(NodeServiceServer::new(fake.clone()))
            .add_service(PeopleServiceServer::new(fake.clone()))
            .add_service(PlanServiceServer::new(fake.clone()))
            .add_service(TrafficServiceServer::new(fake.clone()))
            .add_service(UpstreamServiceServer::new(fake.clone()))
            .add_service(UsageServiceServer::new(fake.clone()));
        tokio::spawn(router.serve_with_incoming(incoming));
        fake
    }

    /// Makes all further calls of `method` fail.
    pub(crate) fn refuse(&self, method: &'static str, code: Code, message: &str) {
        self.state.lock().unwrap().refusals.insert(method, (code, message.to_owned()));
    }

    /// Makes tails fail after the first record, unless they have a cursor.
    pub(crate) fn break_tails(&self) {
        self.state.lock().unwrap().tails = TailBehaviour::Break;
    }

    /// Sets the offset of the gateway's clock.
    pub(crate) fn skew_clock(&self, milliseconds: i64) {
        self.state.lock().unwrap().clock_skew_ms = milliseconds;
    }

    #[expect(clippy::disallowed_methods, reason = "ctl compares it with its own clock")]
    fn gateway_time_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond() + self.state.lock().unwrap().clock_skew_ms
    }

    /// Makes tails end after the history, as at a shutdown of the gateway.
    pub(crate) fn end_tails(&self) {
        self.state.lock().unwrap().tails = TailBehaviour::End;
    }

    /// Sets the announced URL of the API.
    pub(crate) fn set_public_url(&self, url: &str) {
        self.state.lock().unwrap().public_url = Some(url.to_owned());
    }

    /// Makes the ledger verification and the diagnostics report problems.
    pub(crate) fn inject_problems(&self) {
        self.state.lock().unwrap().has_problems = true;
    }

    /// Makes backups end early.
    pub(crate) fn truncate_backups(&self) {
        self.state.lock().unwrap().truncates_backups = true;
    }

    /// Returns all calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// Returns the last call.
    pub(crate) fn last(&self) -> Call {
        self.calls().pop().expect("a call came in")
    }

    /// Records a call, and returns its message or the refusal set for its method.
    fn record<M: std::fmt::Debug>(
        &self,
        method: &'static str,
        request: Request<M>,
    ) -> Result<M, Status> {
        let token = request.metadata().get("authorization").map(|value| {
            value.to_str().unwrap().strip_prefix("Bearer ").expect("a bearer token").to_owned()
        });
        let message = request.into_inner();
        let call = Call { method, token: token.clone(), message: format!("{message:?}") };
        let mut state = self.state.lock().unwrap();
        state.calls.push(call);
        if token.as_deref() == Some("stale") {
            return Err(Status::unauthenticated("the session has ended"));
        }
        match state.refusals.get(method).cloned() {
            Some((code, refusal)) => Err(Status::new(code, refusal)),
            None => Ok(message),
        }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[expect(clippy::unnecessary_wraps, reason = "methods return it")]
fn answer<T>(message: T) -> Answer<T> {
    Ok(Response::new(message))
}

#[expect(clippy::unnecessary_wraps, reason = "messages hold it")]
fn at(seconds: i64, nanos: i32) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: 1_795_176_000 + seconds, nanos })
}

#[expect(clippy::unnecessary_wraps, reason = "messages hold it")]
fn account(name: &str) -> Option<Account> {
    Some(Account {
        id: "019a9f0e-0000-7000-8000-000000000001".to_owned(),
        name: name.to_owned(),
        role: Role::Member.into(),
        status: AccountStatus::Active.into(),
        plan: "free".to_owned(),
        balance_usd: "4.999000001".to_owned(),
        created_at: at(0, 0),
    })
}
