//! Listen addresses: a Unix socket for the admin plane, TLS for both addresses.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use gateway::config::AdminAddress;
use gateway::listeners::Listeners;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::diagnostics_service_client::DiagnosticsServiceClient;
use rustls::pki_types::ServerName;
use tests::{ClientAuthority, Product, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request};

#[tokio::test]
async fn the_admin_plane_may_be_on_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    // the stale socket of a process that was killed
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let address = AdminAddress::Unix(path.clone());
    let product = Product::with(|setup| setup.config.admin_listen = address.clone()).await;
    assert_eq!(product.admin, format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
    assert_eq!(alice.record().await.account, "alice");

    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let taken = Listeners::bind(any, address).err().unwrap();
    assert!(format!("{taken:#}").contains("--admin-listen"), "{taken:#}");
    product.stop().await;
    assert!(!path.exists());
}

/// Regression test: the client reported "invalid compression flag: 123", from the first byte of a
/// JSON error.
#[tokio::test]
async fn an_admin_call_to_the_api_address_names_the_option_for_the_admin_address() {
    let product = Product::on_http1(|_| {}).await;
    let api = proto::client::connect(&format!("http://{}", product.http), None).await.unwrap();
    let refused = AccountServiceClient::new(api).who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("--admin-listen"), "{refused}");
}

#[tokio::test]
async fn both_addresses_serve_tls_with_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = tests::Certificate::create();
    let files = certificate.write(dir.path());
    let product = Product::on_http1(|setup| setup.config.tls = Some(files)).await;

    let localhost = ServerName::try_from("localhost").unwrap();
    let tcp = TcpStream::connect(product.http).await.unwrap();
    let tls = TlsConnector::from(certificate.client_config("http/1.1")).connect(localhost, tcp);
    let mut tls = with_timeout("the handshake", tls).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    tls.write_all(request).await.unwrap();
    let mut answer = String::new();
    with_timeout("the answer", tls.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");

    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&certificate.pem));
    let server = product.admin.replace("http://", "https://");
    let server = Endpoint::from_shared(server).unwrap();
    let server = server.tls_config(tls.domain_name("localhost")).unwrap();
    let channel = with_timeout("a connection", server.connect()).await.unwrap();
    let refused = AccountServiceClient::new(channel.clone()).who_am_i(v1::WhoAmIRequest {}).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);

    let mut request = Request::new(v1::DiagnoseRequest::default());
    let token = format!("Bearer {}", product.home.operator_token()).parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    let found = DiagnosticsServiceClient::new(channel).diagnose(request).await;
    let mut found = found.unwrap().into_inner();
    let certificate = async {
        loop {
            let finding =
                found.message().await.unwrap().expect("the gateway's own certificate is examined");
            if finding.area() == v1::DiagnosticArea::Tls {
                return finding;
            }
        }
    };
    let certificate = with_timeout("a finding", certificate).await;
    assert_eq!(certificate.severity(), v1::Severity::Ok, "{certificate:?}");
    assert!(certificate.subject.ends_with("cert.pem"), "{certificate:?}");
    drop(found);
    product.stop().await;
}

/// Calls the admin plane over TLS with `identity`, without a token.
async fn call_with(product: &Product, pem: &str, identity: Option<Identity>) -> Option<Code> {
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
    tls = tls.domain_name("localhost");
    if let Some(identity) = identity {
        tls = tls.identity(identity);
    }
    let server = Endpoint::from_shared(product.admin.replace("http://", "https://")).unwrap();
    let server = server.tls_config(tls).unwrap();
    let channel = with_timeout("a connection", server.connect()).await.ok()?;
    let call = AccountServiceClient::new(channel).who_am_i(v1::WhoAmIRequest {}).await;
    Some(call.unwrap_err().code())
}

#[tokio::test]
async fn the_admin_plane_may_require_client_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = tests::Certificate::create();
    let (authority, other) = (ClientAuthority::new(), ClientAuthority::new());
    let (files, client_ca) = (certificate.write(dir.path()), dir.path().join("ca.pem"));
    std::fs::write(&client_ca, authority.pem()).unwrap();
    let product = Product::on_http1(|setup| {
        setup.config.tls = Some(files);
        setup.config.admin_client_ca = Some(client_ca);
    })
    .await;
    let identity = |authority: &ClientAuthority| {
        let (certificate, key) = authority.issue();
        Some(Identity::from_pem(certificate, key))
    };
    let reached = Some(Code::Unauthenticated);
    let with = async |identity| call_with(&product, &certificate.pem, identity).await;
    assert_eq!(with(identity(&authority)).await, reached, "the token is still needed");
    assert_ne!(with(None).await, reached);
    assert_ne!(with(identity(&other)).await, reached);
    // The API asks for no certificate.
    let health = product.get("/healthz").tls(certificate.client_config("http/1.1"));
    assert_eq!(health.answer().await.status, 200);
}
