//! Authorization on the admin plane: services, sign-in, registration, revocation.

use std::collections::BTreeSet;

use gateway::control::Registration;
use proto::v1;
use tests::{Product, question};
use tonic::Code;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[tokio::test]
async fn reflection_lists_the_services() {
    let product = Product::start().await;
    let connection = product.anonymous().await.connection;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(connection);
    let asked = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = asked.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: BTreeSet<_> = list.service.into_iter().map(|service| service.name).collect();
    for noun in ["Account", "Key", "Plan", "Model", "Upstream", "Usage", "Audit"] {
        let name = format!("tollgate.admin.v1.{noun}Service");
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(names.contains("grpc.health.v1.Health"), "{names:?}");
}

#[tokio::test]
async fn the_health_service_reports_every_service_as_serving() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let product = Product::start().await;
    let mut client = HealthClient::new(product.anonymous().await.connection);
    for service in ["", "tollgate.admin.v1.AccountService", "tollgate.admin.v1.UsageService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let status = client.check(request).await.unwrap().into_inner().status();
        assert_eq!(status.as_str_name(), "SERVING", "{service}");
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_by_the_next_request() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let (key, other) = (alice.key().await, alice.key().await);
    let send_request = |secret: &str| product.chat(secret, &question("sim-chat", "hi")).answer();
    assert_eq!(send_request(&key.secret).await.status, 200);
    let request = || v1::RevokeKeyRequest { id: key.id.clone() };
    let revoked = alice.keys().revoke_key(request()).await.unwrap().into_inner().key.unwrap();
    assert_eq!(send_request(&key.secret).await.status, 401);
    assert_eq!(send_request(&other.secret).await.status, 200);
    let again = alice.keys().revoke_key(request()).await.unwrap().into_inner().key.unwrap();
    assert_eq!(again.revoked_at, revoked.revoked_at, "revoking twice is no error");
    let home = product.stop().await;
    let product = home.start().await;
    let answer = product.chat(&key.secret, &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 401, "the key is still revoked");
}

#[tokio::test]
async fn sign_out_ends_only_its_own_session() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let other = tests::Session::sign_in(&product.admin, "alice").await;
    alice.accounts().sign_out(v1::SignOutRequest {}).await.unwrap();
    let refused = alice.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert_eq!(other.account().await.name, "alice", "other sessions remain valid");
    let log = other.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap().into_inner();
    let ends: Vec<_> = log.entries.iter().filter(|it| it.action == "session.revoke").collect();
    let [end] = ends[..] else { panic!("not one sign-out: {ends:?}") };
    assert_eq!((end.actor.as_str(), end.details.as_str()), ("alice", "signed out"));
    assert!(!end.address.is_empty(), "{end:?}");
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_give_the_same_error() {
    let product = Product::start().await;
    product.member("alice").await;
    let attempt = async |name: &str| {
        let request =
            v1::SignInRequest { name: name.to_owned(), password: "wrong password".into() };
        product.anonymous().await.accounts().sign_in(request).await.unwrap_err()
    };
    let (wrong, unknown) = (attempt("alice").await, attempt("mallory").await);
    assert_eq!(wrong.code(), Code::Unauthenticated);
    assert_eq!((wrong.code(), wrong.message()), (unknown.code(), unknown.message()));
}

#[tokio::test]
async fn account_names_are_unique_ignoring_case() {
    let product = Product::start().await;
    product.member("alice").await;
    for name in ["alice", "Alice", "operator"] {
        let request = v1::RegisterRequest {
            name: name.to_owned(),
            password: "long enough".to_owned(),
            invite_code: String::new(),
        };
        let refused = product.anonymous().await.accounts().register(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{name}: {refused:?}");
    }
}

/// Registers `name`. Returns the status code if it is refused.
async fn register(product: &Product, name: &str, invite_code: &str) -> Result<(), Code> {
    let request = v1::RegisterRequest {
        name: name.to_owned(),
        password: "long enough".to_owned(),
        invite_code: invite_code.to_owned(),
    };
    let outcome = product.anonymous().await.accounts().register(request).await;
    outcome.map(|_| ()).map_err(|status| status.code())
}

#[tokio::test]
async fn an_invite_code_registers_one_account() {
    let product = Product::with(|setup| setup.config.registration = Registration::Invite).await;
    assert_eq!(register(&product, "alice", "").await, Err(Code::InvalidArgument));
    assert_eq!(register(&product, "alice", "tgi-made-up").await, Err(Code::PermissionDenied));
    let operator = product.operator().await;
    let invite = operator.accounts().create_invite(v1::CreateInviteRequest::default()).await;
    let code = invite.unwrap().into_inner().code;
    assert_eq!(register(&product, "alice", &code).await, Ok(()));
    assert_eq!(register(&product, "bob", &code).await, Err(Code::PermissionDenied));
}

#[tokio::test]
async fn closed_registration_admits_only_operators() {
    let product = Product::with(|setup| setup.config.registration = Registration::Closed).await;
    assert_eq!(register(&product, "alice", "").await, Err(Code::PermissionDenied));
    let request = v1::RegisterRequest {
        name: "alice".to_owned(),
        password: "long enough".to_owned(),
        invite_code: String::new(),
    };
    product.operator().await.accounts().register(request).await.unwrap();
}
