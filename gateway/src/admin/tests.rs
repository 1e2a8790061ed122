//! Tests of the admin plane over a TCP connection.

use std::sync::Arc;

use proto::client::{Connection, connect};
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::connections::RequestTimeouts;
use crate::control::Registration;
use crate::control::tests::{Bench, PASSWORD};
use crate::listeners::AdminListener;

/// A test bench with a running admin server, which [`TestServer::stop`] shuts down.
struct TestServer {
    bench: Bench,
    url: String,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl TestServer {
    async fn new() -> Self {
        let bench = Bench::new(Registration::Open).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let listener = AdminListener::Tcp(listener);
        let settings = super::Settings {
            tls: None,
            client_idle: None,
            timeouts: RequestTimeouts::default(),
            proxies: Arc::default(),
        };
        let serving = super::serve(bench.control.clone(), listener, settings, shutdown.clone());
        tasks.spawn(async { serving.await.unwrap() });
        Self { bench, url, tasks, shutdown }
    }

    async fn connect(&self, token: Option<&SecretString>) -> Connection {
        connect(&self.url, token).await.unwrap()
    }

    async fn operator(&self) -> Connection {
        self.connect(Some(&self.bench.operator_token)).await
    }

    async fn member(&self, name: &str) -> Connection {
        let mut accounts = AccountServiceClient::new(self.connect(None).await);
        let (name, password) = (name.to_owned(), PASSWORD.to_owned());
        let request = v1::RegisterRequest {
            name: name.clone(),
            password: password.clone(),
            invite_code: String::new(),
        };
        accounts.register(request).await.unwrap();
        let signed_in = accounts.sign_in(v1::SignInRequest { name, password }).await.unwrap();
        self.connect(Some(&signed_in.into_inner().token.into())).await
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[tokio::test]
async fn a_member_registers_signs_in_and_creates_a_key() {
    let server = TestServer::new().await;
    let connection = server.member("ann").await;
    let mut accounts = AccountServiceClient::new(connection.clone());
    let me = accounts.who_am_i(v1::WhoAmIRequest {}).await.unwrap().into_inner().account.unwrap();
    assert_eq!((me.name.as_str(), me.balance_usd.as_str()), ("ann", "5"));
    assert_eq!((me.role(), me.status()), (v1::Role::Member, v1::AccountStatus::Active));

    let mut keys = KeyServiceClient::new(connection);
    let request = v1::CreateKeyRequest { label: "ci".into(), ..Default::default() };
    let created = keys.create_key(request).await.unwrap().into_inner();
    assert!(created.secret.starts_with("sk-tg-"));
    let list = keys.list_keys(v1::ListKeysRequest::default()).await.unwrap().into_inner().keys;
    assert_eq!(list, [created.key.unwrap()]);
    let id = list[0].id.clone();
    keys.revoke_key(v1::RevokeKeyRequest { id }).await.unwrap();

    accounts.sign_out(v1::SignOutRequest {}).await.unwrap();
    let after = accounts.who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(after.code(), Code::Unauthenticated);
    server.stop().await;
}

#[tokio::test]
async fn errors_map_to_grpc_codes() {
    let server = TestServer::new().await;
    let mut anonymous = AccountServiceClient::new(server.connect(None).await);
    let ann = server.member("ann").await;
    let mut accounts = AccountServiceClient::new(ann.clone());
    let mut upstreams = UpstreamServiceClient::new(server.operator().await);
    let register = |name: &str| v1::RegisterRequest {
        name: name.into(),
        password: PASSWORD.into(),
        invite_code: String::new(),
    };
    let account = |name: &str| v1::GetAccountRequest { account: name.into() };
    let missing = upstreams.add_upstream(v1::AddUpstreamRequest { upstream: None }).await;
    let errors = [
        (anonymous.who_am_i(v1::WhoAmIRequest {}).await.unwrap_err(), Code::Unauthenticated),
        (anonymous.register(register("ann")).await.unwrap_err(), Code::AlreadyExists),
        (anonymous.register(register("a b")).await.unwrap_err(), Code::InvalidArgument),
        (accounts.get_account(account("operator")).await.unwrap_err(), Code::NotFound),
        (
            accounts.list_accounts(v1::ListAccountsRequest::default()).await.unwrap_err(),
            Code::PermissionDenied,
        ),
        (missing.unwrap_err(), Code::InvalidArgument),
    ];
    for (status, code) in errors {
        assert_eq!(status.code(), code, "{status:?}");
        assert!(!status.message().is_empty());
    }
    server.stop().await;
}

#[tokio::test]
async fn an_operator_sets_up_a_model_and_cannot_read_the_credential() {
    let server = TestServer::new().await;
    let operator = server.operator().await;
    let mut upstreams = UpstreamServiceClient::new(operator.clone());
    let secret = v1::credential::Source::Secret("sk-hidden".into());
    let upstream = v1::Upstream {
        name: "vllm".into(),
        url: "http://10.0.0.5:8000/v1/".into(),
        credential: Some(v1::Credential { source: Some(secret) }),
        profile: v1::Profile::Vllm.into(),
        ..Default::default()
    };
    upstreams.add_upstream(v1::AddUpstreamRequest { upstream: Some(upstream) }).await.unwrap();
    let list = upstreams.list_upstreams(v1::ListUpstreamsRequest {}).await.unwrap();
    let vllm = &list.get_ref().upstreams[0];
    let hidden = v1::credential::Source::Secret(String::new());
    assert_eq!(vllm.credential, Some(v1::Credential { source: Some(hidden) }));
    assert_eq!((vllm.url.as_str(), vllm.problem.as_str()), ("http://10.0.0.5:8000/v1", ""));
    assert!(!format!("{list:?}").contains("sk-hidden"));

    let mut models = ModelServiceClient::new(operator);
    let price = v1::Price { input_usd: "2.50".into(), ..Default::default() };
    let deployment = v1::Deployment { upstream: "vllm".into(), ..Default::default() };
    let model = v1::Model {
        id: "m".into(),
        price: Some(price),
        deployments: vec![deployment],
        ..Default::default()
    };
    models.add_model(v1::AddModelRequest { model: Some(model) }).await.unwrap();
    let request = v1::UpdateModelRequest {
        id: "m".into(),
        output_usd: Some("10".into()),
        ..Default::default()
    };
    let model = models.update_model(request).await.unwrap().into_inner().model.unwrap();
    let price = model.price.unwrap();
    assert_eq!((price.input_usd.as_str(), price.output_usd.as_str()), ("2.5", "10"));
    assert_eq!((price.cached_usd.as_str(), price.version), ("2.5", 2));
    assert_eq!(
        (model.deployments[0].upstream_model.as_str(), model.deployments[0].weight),
        ("m", 1)
    );

    let request = v1::RemoveUpstreamRequest { name: "vllm".into() };
    let in_use = upstreams.remove_upstream(request).await.unwrap_err();
    assert_eq!(in_use.code(), Code::FailedPrecondition);

    let mut member_models = ModelServiceClient::new(server.member("ann").await);
    let listed = member_models.list_models(v1::ListModelsRequest {}).await.unwrap();
    let visible = listed.into_inner().models;
    assert!(visible.len() == 1 && visible[0].deployments.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_tail_streams_until_shutdown() {
    let server = TestServer::new().await;
    let mut usage = UsageServiceClient::new(server.member("ann").await);
    let ann =
        server.bench.control.get_account(&server.bench.operator, "ann").await.unwrap().account.id;
    server.bench.record(ann, 2).await;
    let request = v1::TailRequestsRequest { history: 10, ..Default::default() };
    let mut tail = usage.tail_requests(request).await.unwrap().into_inner();
    let history = tail.message().await.unwrap().unwrap();
    assert_eq!((history.requests.len(), history.live), (2, false));
    assert_eq!(history.requests[0].cost_usd.as_deref(), Some("0.000000007"));
    assert!(tail.message().await.unwrap().unwrap().live);
    server.bench.record(ann, 1).await;
    assert_eq!(tail.message().await.unwrap().unwrap().requests.len(), 1);

    let listed = usage.list_requests(v1::ListRequestsRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().requests.len(), 3);
    let sums = usage.summarize_usage(v1::SummarizeUsageRequest::default()).await.unwrap();
    assert_eq!(sums.into_inner().totals.unwrap().requests, 3);
    server.stop().await;
    assert_eq!(tail.message().await.unwrap(), None);
}

#[tokio::test]
async fn health_and_reflection_list_the_services() {
    let server = TestServer::new().await;
    let connection = server.connect(None).await;
    let mut health = HealthClient::new(connection.clone());
    for service in ["", "tollgate.admin.v1.KeyService", "tollgate.admin.v1.UsageService"] {
        let request = HealthCheckRequest { service: service.into() };
        assert_eq!(health.check(request).await.unwrap().into_inner().status, 1, "{service}");
    }
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status, 1);

    let mut reflection = ServerReflectionClient::new(connection);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = futures_util::stream::iter([request]);
    let mut responses = reflection.server_reflection_info(requests).await.unwrap().into_inner();
    let response = responses.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = response else { panic!("{response:?}") };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for noun in ["Account", "Key", "Plan", "Model", "Upstream", "Usage", "Audit"] {
        let name = format!("tollgate.admin.v1.{noun}Service");
        assert!(names.contains(&name.as_str()), "{names:?}");
    }
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
    // The open health watch must not delay the shutdown.
    server.stop().await;
}
