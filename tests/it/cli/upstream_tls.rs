//! An upstream with a TLS certificate that no public authority has signed.

use std::sync::Arc;

use gateway::app;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use simulator::{self, Simulator, TruthLog};
use tests::{Product, question};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::user::User;

/// Starts a simulator with TLS on a free port of `localhost`. Returns it with the tasks that run
/// it.
async fn secure_simulator(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
) -> (String, JoinSet<()>) {
    let settings = simulator::Settings { seed: 1, truth: TruthLog::memory() };
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = plain.local_addr().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    let mut tasks = JoinSet::new();
    tasks.spawn(app::run_simulator(plain, Simulator::new(settings), CancellationToken::new()));
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let mut there = TcpStream::connect(address).await?;
                let mut here = acceptor.accept(stream).await?;
                tokio::io::copy_bidirectional(&mut here, &mut there).await
            });
        }
    });
    (url, tasks)
}

/// Returns a self-signed certificate for `localhost` that may sign others, as `openssl req -x509`
/// creates it.
fn self_signed() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a text to a file in the product's scratch directory.
fn file(product: &Product, name: &str, text: &str) -> String {
    let path = product.home.scratch().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn an_upstream_is_trusted_by_its_configured_certificates_only() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    let key = product.member("alice").await.key().await.secret;
    let (own, authority) = (self_signed(), self_signed());
    let leaf_key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let leaf = params.signed_by(&leaf_key, &authority).unwrap();
    let mut running = Vec::new();
    for (name, certificate, its_key, trusted) in [
        ("own", own.der().clone(), own.key(), own.pem()),
        ("signed", leaf.der().clone(), &leaf_key, authority.pem()),
    ] {
        let (url, tasks) = secure_simulator(certificate, its_key).await;
        running.push(tasks);
        operator.ok(&format!("upstream add {name} --url {url}")).await;
        operator.ok(&format!("model add m-{name} --upstream {name}:sim-chat")).await;
        let send_request = async || {
            product.chat(&key, &question(&format!("m-{name}"), "hi")).answer().await.status
        };
        assert_eq!(send_request().await, 502, "{name} is not signed by a public authority");
        let found = operator.ctl("doctor -o json").await.out;
        let option = format!("ctl upstream update {name} --upstream-ca-file FILE");
        assert!(found.contains(&option), "{found}");

        let pem = file(&product, &format!("{name}.pem"), &trusted);
        operator.ok(&format!("upstream update {name} --upstream-ca-file {pem}")).await;
        assert_eq!(send_request().await, 200, "{name}");
        operator.ok("doctor").await;
    }
    // Certificates are trusted for one upstream only.
    let other = file(&product, "other.pem", &self_signed().pem());
    operator.ok(&format!("upstream update own --upstream-ca-file {other}")).await;
    assert_eq!(product.chat(&key, &question("m-own", "hi")).answer().await.status, 502);
}

#[tokio::test]
async fn ca_certificates_of_an_upstream_are_stored_exported_and_removed() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    let pem = self_signed().pem();
    let path = file(&product, "ca.pem", &pem);
    let add =
        format!("upstream add inner --url https://inner.example/v1 --upstream-ca-file {path}");
    assert_eq!(operator.json(&add).await["ca_certificates"], json!(pem));
    let home = product.stop().await;
    let product = home.start().await;
    let operator = User::operator(&product);
    let exported = operator.ok("export").await;
    let catalogue = file(&product, "catalogue.toml", &exported);
    let ran = operator.ctl(&format!("apply -f {catalogue}")).await;
    assert!(ran.code == 0 && ran.err.contains("no changes"), "{ran:?}");
    operator.ok("upstream update inner --no-upstream-ca").await;
    operator.ok(&format!("apply -f {catalogue}")).await;
    assert_eq!(operator.ok("export").await, exported);
    let audit = operator.ok("audit list -o json").await;
    assert!(audit.contains("ca_certificates"), "{audit}");
}

#[tokio::test]
async fn ca_certificates_are_refused_for_an_upstream_without_tls() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    let path = file(&product, "ca.pem", &self_signed().pem());
    let ran = operator.ctl(&format!("upstream add u --url sim: --upstream-ca-file {path}")).await;
    assert!(ran.code == 2 && ran.err.contains("`https:`"), "{ran:?}");
}
