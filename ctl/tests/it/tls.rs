//! Over TLS: one file of trusted certificates for all that `ctl` connects to, and errors that help.

use std::path::PathBuf;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;

use crate::fake::{Fake, api, api_tls};
use crate::harness::Person;

/// A certificate for `names` that signs itself and may sign others, as `openssl req -x509` makes it.
fn self_signed(names: &[&str]) -> CertifiedIssuer<'static, KeyPair> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for `localhost` of this authority, and its key.
fn signed_by(
    authority: &CertifiedIssuer<'_, KeyPair>,
) -> (CertificateDer<'static>, String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.der().clone(), certificate.pem(), key)
}

/// A person with a token, and the path of a file that holds `pem`.
fn person_with(pem: &str) -> (Person, PathBuf) {
    let mut person = Person::new();
    person.environment.token = Some("token".into());
    let file = person.path("trusted.pem");
    std::fs::write(&file, pem).unwrap();
    (person, file)
}

#[tokio::test]
async fn a_self_signed_authority_is_accepted_as_the_certificate_of_the_server_it_was_named_for() {
    let made = self_signed(&["localhost"]);
    let fake = Fake::start_tls(&made.pem(), &made.key().serialize_pem()).await;
    let (person, file) = person_with(&made.pem());
    let line = format!("whoami --server {} --ca-file {}", fake.server, file.display());
    person.ctl(&line).await.ok();
    let ran = person.ctl(&format!("whoami --server {}", fake.server)).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.err.contains("self-signed"), "{}", ran.err);
    assert!(ran.err.contains("copy its certificate and name it with --ca-file"), "{}", ran.err);
}

#[tokio::test]
async fn quickstart_and_the_check_of_an_agent_trust_the_file_as_other_commands_do() {
    let authority = self_signed(&[]);
    let (certificate, pem, key) = signed_by(&authority);
    let fake = Fake::start_tls(&pem, &key.serialize_pem()).await;
    let url = api_tls(&["sim-fast"], &certificate, &key).await;
    let (mut person, file) = person_with(&authority.pem());
    let server = &fake.server;
    let line = format!("quickstart --server {server} --base-url {url}");
    let ran = person.ctl(&line).await;
    assert_eq!((ran.code, fake.calls().len()), (6, 0), "{ran:?}");
    assert!(ran.err.contains("--ca-file FILE"), "{}", ran.err);
    person.ctl(&format!("{line} --ca-file {}", file.display())).await.ok();

    person.environment.api_key = Some("sk-tg-x".into());
    let line = format!("agent-config aider --check --model m --server {server} --base-url {url}");
    let ran = person.ctl(&line).await;
    assert!(ran.code == 6 && ran.err.contains("--ca-file FILE"), "{ran:?}");
    person.environment.ca_file = Some(file);
    let ran = person.ctl(&line).await;
    assert!(ran.err.contains("HTTP 502"), "the API is reached, and has no such model: {ran:?}");
}

#[tokio::test]
async fn the_wrong_scheme_is_named() {
    let made = self_signed(&["localhost"]);
    let secure = Fake::start_tls(&made.pem(), &made.key().serialize_pem()).await;
    let plain = Fake::start().await;
    let (mut person, file) = person_with(&made.pem());
    let in_clear = secure.server.replace("https:", "http:");
    for line in ["whoami", "doctor"] {
        let ran = person.ctl(&format!("{line} --server {in_clear}")).await;
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains("the gateway speaks TLS"), "{said}");
        assert!(said.contains("use https://"), "{said}");
    }
    let to_plain = plain.server.replace("http://127.0.0.1", "https://localhost");
    let ran = person.ctl(&format!("whoami --server {to_plain} --ca-file {}", file.display())).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.err.contains("the server does not speak TLS"), "{}", ran.err);
    assert!(ran.err.contains("use http://"), "{}", ran.err);

    let url = api_tls(&["sim-fast"], made.der(), made.key()).await.replace("https:", "http:");
    person.environment.server = Some(plain.server.clone());
    let ran = person.ctl(&format!("quickstart --base-url {url}")).await;
    assert!(ran.code == 6 && ran.err.contains("--base-url https://"), "{ran:?}");
    let url = api(&["sim-fast"]).await.replace("http://127.0.0.1", "https://localhost");
    let ran = person.ctl(&format!("quickstart --base-url {url}")).await;
    assert!(ran.code == 6 && ran.err.contains("use http://"), "{ran:?}");
}

#[tokio::test]
async fn a_certificate_for_another_name_says_for_which() {
    let made = self_signed(&["gate.example"]);
    let fake = Fake::start_tls(&made.pem(), &made.key().serialize_pem()).await;
    let (person, file) = person_with(&made.pem());
    let line = format!("whoami --server {} --ca-file {}", fake.server, file.display());
    let ran = person.ctl(&line).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.err.contains("gate.example") && ran.err.contains("subjectAltName"), "{}", ran.err);
}

#[tokio::test]
async fn a_file_without_certificates_is_refused_before_anything_is_sent() {
    let made = self_signed(&["localhost"]);
    let fake = Fake::start_tls(&made.pem(), &made.key().serialize_pem()).await;
    let (person, file) = person_with(&made.key().serialize_pem());
    let line = format!("whoami --server {} --ca-file {}", fake.server, file.display());
    let ran = person.ctl(&line).await;
    assert!(ran.code == 1 && ran.err.contains("holds no certificate"), "{ran:?}");
    let line =
        format!("upstream add u --url https://u.example/v1 --upstream-ca-file {}", file.display());
    let ran = person.ctl(&line).await;
    assert!(ran.code == 2 && ran.err.contains("holds no certificate"), "{ran:?}");
}

/// The binary itself, whose host's store is where this variable says.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_of_the_host_is_trusted() {
    let authority = self_signed(&[]);
    let (_, pem, key) = signed_by(&authority);
    let fake = Fake::start_tls(&pem, &key.serialize_pem()).await;
    let (person, file) = person_with(&authority.pem());
    let whoami = |store: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctl"));
        command.args(["whoami", "--server", &fake.server]).env_clear();
        command.env("HOME", person.path("")).env("TOLLGATE_TOKEN", "token");
        command.env("SSL_CERT_FILE", store).output().unwrap().status.code()
    };
    assert_eq!(whoami(&file), Some(0));
    assert_eq!(whoami(&person.path("missing.pem")), Some(6));
}
