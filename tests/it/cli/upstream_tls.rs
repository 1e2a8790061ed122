//! An upstream with a TLS certificate that no public authority has signed.

use std::sync::Arc;

use gateway::app;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use simulator::{self, Simulator, TruthLog};
use tests::{Product, question};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::user::User;

/// Starts a simulator with TLS on a free port of `localhost`, which demands a certificate of the authority
/// `clients` if there is one. Returns it with the tasks that run it.
async fn secure_simulator(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
    clients: Option<&CertificateDer<'static>>,
) -> (String, JoinSet<()>) {
    let settings = simulator::Settings { seed: 1, truth: TruthLog::memory() };
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = plain.local_addr().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let verifier = clients.map_or_else(WebPkiClientVerifier::no_client_auth, |authority| {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).unwrap();
        let roots = Arc::new(roots);
        WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build().unwrap()
    });
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
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
        let (url, tasks) = secure_simulator(certificate, its_key, None).await;
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

#[tokio::test]
async fn an_upstream_that_demands_a_certificate_gets_that_of_its_entry() {
    let product = Product::start().await;
    let operator = User::operator(&product);
    let key = product.member("alice").await.key().await.secret;
    let (server, authority) = (self_signed(), self_signed());
    let (url, _tasks) =
        secure_simulator(server.der().clone(), server.key(), Some(authority.der())).await;
    let client_key = KeyPair::generate().unwrap();
    let issue = |name: &str| {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = rcgen::date_time_ymd(2131, 5, 6);
        params.signed_by(&client_key, &authority).unwrap().pem()
    };
    let trusted = file(&product, "server.pem", &server.pem());
    let certificate = file(&product, "client.pem", &issue("gate"));
    let key_pem = client_key.serialize_pem();
    let key_file = file(&product, "client.key", &key_pem);
    let other_key = file(&product, "other.key", &KeyPair::generate().unwrap().serialize_pem());
    operator.ok(&format!("upstream add inner --url {url} --upstream-ca-file {trusted}")).await;
    operator.ok("model add asked --upstream inner:sim-chat").await;
    let send_request = async |product: &Product| {
        product.chat(&key, &question("asked", "hi")).answer().await.status
    };
    assert_eq!(send_request(&product).await, 502);

    let set = format!("upstream update inner --client-cert {certificate}");
    let ran = operator.ctl(&set).await;
    assert!(ran.code == 2 && ran.err.contains("its key is not stored"), "{ran:?}");
    let ran = operator.ctl(&format!("{set} --client-key {other_key}")).await;
    assert!(ran.code == 2 && ran.err.contains("not that of the first certificate"), "{ran:?}");
    let shown = operator.json(&format!("{set} --client-key {key_file}")).await;
    assert!(shown["client_subject"].as_str().unwrap().ends_with("CN=gate"), "{shown}");
    assert_eq!(shown["client_expires_at"], json!("2131-05-06T00:00:00Z"));
    assert_eq!(send_request(&product).await, 200);
    operator.ok("doctor").await;

    // The key is in the store, encrypted, and is shown nowhere.
    let product = product.stop().await.start().await;
    let operator = User::operator(&product);
    assert_eq!(send_request(&product).await, 200);
    let exported = operator.ok("export").await;
    let everything = [
        exported.clone(),
        shown.to_string(),
        operator.ok("upstream list -o json").await,
        operator.ok("audit list -o json").await,
    ];
    let secret = key_pem.lines().nth(1).unwrap();
    assert!(everything.iter().all(|text| !text.contains(secret)), "{everything:?}");
    assert!(everything[3].contains("client_certificate: "), "{everything:?}");
    for entry in std::fs::read_dir(product.home.data_dir()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{}", path.display());
    }

    // A renewed certificate of the same key, and back to the old one with the exported catalogue.
    let renewed = file(&product, "renewed.pem", &issue("renewed"));
    let shown = operator.json(&format!("upstream update inner --client-cert {renewed}")).await;
    assert!(shown["client_subject"].as_str().unwrap().ends_with("CN=renewed"), "{shown}");
    let catalogue = file(&product, "catalogue.toml", &exported);
    operator.ok(&format!("apply -f {catalogue}")).await;
    assert_eq!(operator.ok("export").await, exported);
    assert_eq!(send_request(&product).await, 200);
    operator.ok("upstream update inner --no-client-cert").await;
    assert_eq!(send_request(&product).await, 502);
    let ran = operator.ctl(&format!("apply -f {catalogue}")).await;
    assert!(ran.code != 0 && ran.err.contains("--client-key"), "{ran:?}");
}
