//! TLS: the trusted certificates of all connections, and the errors of failed handshakes.

use std::path::PathBuf;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;

use crate::fake::{FakeGateway, start_api, start_api_tls};
use crate::harness::TestUser;

/// Creates a self-signed CA certificate for `names`, like `openssl req -x509`.
fn self_signed(names: &[&str]) -> CertifiedIssuer<'static, KeyPair> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Creates a certificate for `localhost`, signed by `authority`, and its key.
fn signed_by(
    authority: &CertifiedIssuer<'_, KeyPair>,
) -> (CertificateDer<'static>, String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.der().clone(), certificate.pem(), key)
}

/// Creates a user with a token, and a file with the contents `pem`.
fn user_with(pem: &str) -> (TestUser, PathBuf) {
    let mut user = TestUser::new();
    user.environment.token = Some("token".into());
    let file = user.path("trusted.pem");
    std::fs::write(&file, pem).unwrap();
    (user, file)
}

#[tokio::test]
async fn a_self_signed_ca_is_accepted_as_the_server_certificate_if_named() {
    let issued = self_signed(&["localhost"]);
    let fake = FakeGateway::start_tls(&issued.pem(), &issued.key().serialize_pem()).await;
    let (user, file) = user_with(&issued.pem());
    let line = format!("whoami --server {} --ca-file {}", fake.server, file.display());
    user.ctl(&line).await.ok();
    let result = user.ctl(&format!("whoami --server {}", fake.server)).await;
    assert_eq!(result.code, 6, "{result:?}");
    assert!(result.err.contains("self-signed"), "{}", result.err);
    assert!(
        result.err.contains("copy its certificate and name it with --ca-file"),
        "{}",
        result.err
    );
}

#[tokio::test]
async fn api_calls_trust_the_ca_file_like_admin_calls() {
    let authority = self_signed(&[]);
    let (certificate, pem, key) = signed_by(&authority);
    let fake = FakeGateway::start_tls(&pem, &key.serialize_pem()).await;
    let url = start_api_tls(&["sim-fast"], &certificate, &key).await;
    let (mut user, file) = user_with(&authority.pem());
    let server = &fake.server;
    let line = format!("quickstart --server {server} --base-url {url}");
    let result = user.ctl(&line).await;
    assert_eq!((result.code, fake.calls().len()), (6, 0), "{result:?}");
    assert!(result.err.contains("--ca-file FILE"), "{}", result.err);
    user.ctl(&format!("{line} --ca-file {}", file.display())).await.ok();

    user.environment.api_key = Some("sk-tg-x".into());
    let line = format!("agent-config aider --check --model m --server {server} --base-url {url}");
    let result = user.ctl(&line).await;
    assert!(result.code == 6 && result.err.contains("--ca-file FILE"), "{result:?}");
    user.environment.ca_file = Some(file);
    let result = user.ctl(&line).await;
    assert!(
        result.err.contains("HTTP 502"),
        "the API is reached, but has no such model: {result:?}"
    );
}

#[tokio::test]
async fn a_wrong_scheme_is_reported() {
    let issued = self_signed(&["localhost"]);
    let secure = FakeGateway::start_tls(&issued.pem(), &issued.key().serialize_pem()).await;
    let plain = FakeGateway::start().await;
    let (mut user, file) = user_with(&issued.pem());
    let in_clear = secure.server.replace("https:", "http:");
    for line in ["whoami", "doctor"] {
        let result = user.ctl(&format!("{line} --server {in_clear}")).await;
        let printed = format!("{}{}", result.out, result.err);
        assert!(printed.contains("the gateway speaks TLS"), "{printed}");
        assert!(printed.contains("use https://"), "{printed}");
    }
    let to_plain = plain.server.replace("http://127.0.0.1", "https://localhost");
    let result =
        user.ctl(&format!("whoami --server {to_plain} --ca-file {}", file.display())).await;
    assert_eq!(result.code, 6, "{result:?}");
    assert!(result.err.contains("the server does not speak TLS"), "{}", result.err);
    assert!(result.err.contains("use http://"), "{}", result.err);

    let url =
        start_api_tls(&["sim-fast"], issued.der(), issued.key()).await.replace("https:", "http:");
    user.environment.server = Some(plain.server.clone());
    let result = user.ctl(&format!("quickstart --base-url {url}")).await;
    assert!(result.code == 6 && result.err.contains("--base-url https://"), "{result:?}");
    let url = start_api(&["sim-fast"]).await.replace("http://127.0.0.1", "https://localhost");
    let result = user.ctl(&format!("quickstart --base-url {url}")).await;
    assert!(result.code == 6 && result.err.contains("use http://"), "{result:?}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_reported_with_its_names() {
    let issued = self_signed(&["gate.example"]);
    let fake = FakeGateway::start_tls(&issued.pem(), &issued.key().serialize_pem()).await;
    let (user, file) = user_with(&issued.pem());
    let line = format!("whoami --server {} --ca-file {}", fake.server, file.display());
    let result = user.ctl(&line).await;
    assert_eq!(result.code, 6, "{result:?}");
    assert!(
        result.err.contains("gate.example") && result.err.contains("subjectAltName"),
        "{}",
        result.err
    );
}

#[tokio::test]
async fn a_file_without_certificates_is_refused_before_anything_is_sent() {
    let issued = self_signed(&["localhost"]);
    let fake = FakeGateway::start_tls(&issued.pem(), &issued.key().serialize_pem()).await;
    let (user, file) = user_with(&issued.key().serialize_pem());
    let line = format!("whoami --server {} --ca-file {}", fake.server, file.display());
    let result = user.ctl(&line).await;
    assert!(result.code == 1 && result.err.contains("holds no certificate"), "{result:?}");
    let line =
        format!("upstream add u --url https://u.example/v1 --upstream-ca-file {}", file.display());
    let result = user.ctl(&line).await;
    assert!(result.code == 2 && result.err.contains("holds no certificate"), "{result:?}");
}

/// Runs the real binary with `SSL_CERT_FILE` as the certificate store of the host.
#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_store_of_the_host_is_trusted() {
    let authority = self_signed(&[]);
    let (_, pem, key) = signed_by(&authority);
    let fake = FakeGateway::start_tls(&pem, &key.serialize_pem()).await;
    let (user, file) = user_with(&authority.pem());
    let whoami = |store: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctl"));
        command.args(["whoami", "--server", &fake.server]).env_clear();
        command.env("HOME", user.path("")).env("TOLLGATE_TOKEN", "token");
        command.env("SSL_CERT_FILE", store).output().unwrap().status.code()
    };
    assert_eq!(whoami(&file), Some(0));
    assert_eq!(whoami(&user.path("missing.pem")), Some(6));
}
